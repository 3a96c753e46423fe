"""Forked children, such as a DataLoader's workers, cannot use a group. Its calls continue whatever the children do."""


def test_children(ranks):
    ranks.run("forks.check_children", 2)


def test_loaders(ranks):
    ranks.run("forks.check_loaders", 2)
