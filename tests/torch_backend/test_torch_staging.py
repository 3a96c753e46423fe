"""Tensors of a device go by way of the host. CPU tensors stand for them; `make test SET=gpu` has the real ones."""


def test_tensors(ranks):
    ranks.run("staging.check_tensors", 3)


def test_modes(ranks):
    ranks.run("staging.check_modes", 2)


def test_graphs(ranks):
    ranks.run("staging.check_graphs", 2)


def test_checks_for_a_gpu(ranks):
    """`make test SET=gpu`, as far as it needs none."""
    ranks.run("staging.check_on_a_gpu", 2)
