"""The tests of backends in PyTorch's wheel, over ringroad: all that do not skip themselves must pass."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import FULL
from marks import VERSION

SUITE = Path(__file__).parent / "conformance.py"

SKIPS = [
    (r"accelerator|CUDA|GPU|cuda", "needs accelerators"),
    (r"N(CCL|ccl)|nccl", "of NCCL alone"),
    (r"github.com/pytorch|failing|flak|internal|fbcode", "PyTorch skips it itself, for a defect"),
    (r"world size", "needs another number of ranks"),
    (r"torchvision", "needs torchvision"),
    (r"TORCH_DISTRIBUTED_DEBUG|debug level", "for another debug level; test_torch_checks.py has a test of DETAIL"),
    (r"one of \{'(mpi|ucc)'\}", "of another backend alone"),
]
"""Why tests skip themselves, by a part of what they say."""

FEWEST = 115 if FULL else 35
"""The number of tests that must pass, in case a new version of torch skips all of them."""


def outcomes(part: str = "") -> list[dict[str, str]]:
    """What has become of each test with this in its name."""
    command = [sys.executable, str(SUITE), *([] if FULL else ["--brief"]), "-k", part]
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            # The process group has the ranks that it has started.
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, errors[-4000:]
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.timeout(660)
def test_conformance():
    pytest.importorskip("expecttest", reason="torch's tests need expecttest")
    rows = outcomes()
    # PyTorch limits some of them to 1 second, which is short for a busy machine.
    for late in [row for row in rows if row["outcome"] == "failed" and "TimeoutError" in row["text"]]:
        rows.remove(late)
        rows += [row for row in outcomes(late["name"]) if row["name"] == late["name"]]
    by_outcome = {
        outcome: {row["name"]: row["text"] for row in rows if row["outcome"] == outcome}
        for outcome in ("passed", "skipped", "failed")
    }
    wrong = by_outcome["failed"]
    if VERSION < (2, 14):
        refused = "monitored_barrier is only implemented for GLOO"
        wrong = {name: text for name, text in wrong.items() if refused not in text}
    assert not wrong, "\n\n".join(f"{name}: {text}" for name, text in wrong.items())
    unexplained = {
        name: text
        for name, text in by_outcome["skipped"].items()
        if not any(re.search(words, text) for words, _ in SKIPS)
    }
    assert not unexplained, unexplained
    assert len(by_outcome["passed"]) >= FEWEST
