"""Every collective of torch.distributed over ringroad, against NumPy, in several processes."""

import re
from pathlib import Path

import pytest
from helpers import FULL, ROOT, TRANSPORTS
from marks import lacking
from ranks import TORCH


@pytest.mark.parametrize("size", [1, 3, *([2, 5, 8] if FULL else [])])
def test_values(ranks, size):
    """All collectives, dtypes and operations, called in every way. Replicated results are bit-identical."""
    digests = ranks.run("values.check_values", size, timeout=300)
    assert all(digest == digests[0] for digest in digests)


@pytest.mark.skipif(TORCH < (2, 10), reason="torch 2.10 brought DLPack's exchange API")
def test_the_path_of_bytes(ranks):
    """ARCHITECTURE.md names all files of ringroad.torch on it, and functions that exist."""
    section = (
        (ROOT / "ARCHITECTURE.md").read_text().partition("## The path of a tensor's bytes")[2].partition("\n## ")[0]
    )
    steps = re.findall(r"^\d+\. `(\S+)`, `(\w+)`", section, re.MULTILINE)
    assert [Path(file).name for file, _ in steps if file.endswith(".py")] == ranks.run("calls.check_path", 1)[0]
    for file, function in steps:
        assert re.search(rf"\b(def|fn) {function}\b", (ROOT / file).read_text()), (file, function)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_messages(ranks, size):
    ranks.run("calls.check_messages", size)


def test_high_tags(ranks):
    ranks.run("calls.check_high_tags", 3)


@pytest.mark.parametrize("transport", ["memory", "shm", "tcp"])
def test_messages_from_anybody(ranks, transport):
    ranks.run("calls.check_any_source", 3, env=TRANSPORTS[transport])


@pytest.mark.parametrize("size", [1, 3])
def test_uneven_pieces(ranks, size):
    ranks.run("values.check_uneven", size)


@pytest.mark.parametrize("topology", ["ring:3", "mesh:2x3"])
def test_uneven_pieces_that_ranks_pass_on(ranks, topology):
    """Without a switch between them, the ranks agree on how much each has for each other one."""
    env = {"RINGROAD_TOPOLOGY": topology}
    ranks.run("values.check_uneven", {"ring:3": 3, "mesh:2x3": 6}[topology], env=env)
    ranks.run("values.check_disagreement", {"ring:3": 3, "mesh:2x3": 6}[topology], env=env)


def test_sizes_on_some_ranks(ranks):
    ranks.run("values.check_sizes_on_some_ranks", 3)


@pytest.mark.parametrize("size", [1, 3])
def test_scalars_and_nothing(ranks, size):
    ranks.run("values.check_scalars", size)


@pytest.mark.skipif(TORCH < (2, 10), reason="torch 2.10 brought DLPack's exchange API")
def test_tensors_taken_as_they_are(ranks):
    ranks.run("calls.check_exchange", 2)


def test_layouts(ranks):
    ranks.run("calls.check_layouts", 3)


def test_wrappers(ranks):
    ranks.run("calls.check_wrappers", 2)


@lacking((2, 14), "some calls go over gloo, and gloo differs in others")
def test_tensors_beside_gloo(ranks):
    ranks.run("beside_gloo.check_beside_gloo", 2)


def test_work(ranks):
    ranks.run("calls.check_work", 2)


def test_sparse(ranks):
    ranks.run("calls.check_sparse", 3)


def test_averages_of_integers(ranks):
    ranks.run("calls.check_integer_averages", 3)


def test_what_is_refused(ranks):
    texts = ranks.run("calls.check_refusals", 2)[0]
    for text, words in zip(
        texts,
        (
            ["TypeError", "float8_e4m3fn", "supports float16", "view(torch.uint8)"],
            ["ValueError", "sparse", "SUM", "to_dense"],
            ["ValueError", "dense", "sparse_coo"],
            ["ValueError", "CPU tensors", "meta", "cpu:ringroad,cuda:nccl"],
            ["band", "float32"],
            ["ValueError", "all_gather_single", "output must have 6 elements, not 1"],
            ["tag"],
            ["tag"],
            ["RuntimeError", "only a recv has a source rank"],
        ),
        strict=True,
    ):
        assert all(word in text for word in words), text
