"""Whether models hold the same bits on all ranks."""


def test_models(ranks):
    ranks.run("replicas.check_models", 3)


def test_ddp(ranks):
    ranks.run("replicas.check_ddp", 3)


def test_sharded(ranks):
    ranks.run("replicas.check_sharded", 4)


def test_refusals(ranks):
    ranks.run("replicas.check_refusals", 2)
