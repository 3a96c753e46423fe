"""Every collective of torch.distributed over ringroad, against NumPy, in several processes."""

import re
from pathlib import Path

import pytest
from helpers import FULL, ROOT
from marks import lacking
from ranks import TORCH


@pytest.mark.parametrize("size", [1, 3, *([2, 5, 8] if FULL else [])])
def test_values(ranks, size):
    """All collectives, dtypes and operations, called in every way. Replicated results are bit-identical."""
    digests = ranks.run("values.check_values", size, timeout=300)
    assert all(digest == digests[0] for digest in digests)


@lacking((2, 14), "gloo refuses more")
@pytest.mark.parametrize("size", [2, 3, 4])
def test_random_programs(ranks, size):
    """Programs that change with the number of ranks. gloo gives the same."""
    for first in range(0, 400 if FULL else 4, 4):
        calls = ranks.run("random_programs.check", size, 10_000 * size + first, 4, timeout=120)
        assert min(calls) >= 10


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


def test_what_is_refused(ranks):
    texts = ranks.run("calls.check_refusals", 2)[1]
    for text, words in zip(
        texts,
        (
            ["TypeError", "can move torch.float8_e4m3fn", "reduces float16"],
            ["TypeError", "bits8", "supports float16", "view(torch.uint8)"],
            ["ValueError", "sparse", "SUM", "to_dense"],
            ["ValueError", "dense", "sparse_coo"],
            ["ValueError", "CPU tensors", "meta", "cpu:ringroad,cuda:nccl"],
            ["band", "float32"],
            ["ValueError", "all_gather_single", "output must have 6 elements, not 1"],
            ["tag"],
            ["tag"],
            ["RuntimeError", "only a recv has a source rank"],
            ["ValueError", "elements share memory", "as_strided"],
            ["ValueError", "elements share memory", "as_strided"],
        ),
        strict=True,
    ):
        assert all(word in text for word in words), text
