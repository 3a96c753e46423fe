"""Forked children, such as a DataLoader's workers, can use nothing of a group, and its calls go on whatever they do."""


def test_children(ranks):
    ranks.run("forks.check_children", 2)


def test_children_of_a_pipeline(ranks):
    ranks.run("forks.check_children_of_a_pipeline", 2)


def test_loaders(ranks):
    ranks.run("forks.check_loaders", 2)
