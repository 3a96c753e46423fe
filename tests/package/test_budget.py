"""How long the production code may be. To add more lines, raise a number here, which a reviewer sees."""

import subprocess
from collections import Counter
from pathlib import Path

from helpers import ROOT

BUDGET = {
    "library": {
        "rust/ringroad-core/src": 32_651,
        "rust/ringroad-runtime/src": 31_141,
        "rust/ringroad-py/src": 8_492,
        "python/ringroad": 11_009,
    },
    "extras": {
        "rust/ringroad-core/src/discovery": 3_371,
        "rust/ringroad-core/src/changes.rs": 482,
        "rust/ringroad-core/src/wire.rs": 236,
        "rust/ringroad-runtime/src/kernels/wire": 1_283,
        "rust/ringroad-runtime/src/network": 3_103,
        "rust/ringroad-runtime/src/transport/ucx": 2_109,
        "rust/ucx-sys/src": 1_008,
        "python/ringroad/_grids": 1_116,
        "python/ringroad/doctor": 1_448,
        "python/ringroad/measure": 2_772,
        "python/ringroad/start/doors.py": 265,
        "python/ringroad/start/elastic.py": 297,
        "python/ringroad/start/membership.py": 398,
        "python/ringroad/start/state.py": 123,
        "python/ringroad/start/record.py": 52,
        "python/ringroad/testbed": 1_618,
    },
    "laboratory": {
        "rust/ringroad-lab/src": 2_903,
        "rust/ringroad-py/src/lab": 522,
        "rust/ringroad-web/src": 233,
        "python/ringroad/cli/lab": 614,
        "python/ringroad/lab": 6_210,
    },
}
"""The lines of each ring, by folder or file; a folder's do not count those of a folder within that is listed."""


def lines() -> Counter[str]:
    """The lines of each listed path, without modules of tests."""
    listed = sorted((path for ring in BUDGET.values() for path in ring), key=len, reverse=True)
    found: Counter[str] = Counter()
    files = subprocess.run(["git", "ls-files", *listed], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for file in map(Path, files.splitlines()):
        if file.suffix in (".rs", ".py", ".pyi") and not {"tests", "tests.rs"} & set(file.parts):
            path = next(path for path in listed if file.is_relative_to(path))
            found[path] += len((ROOT / file).read_text().splitlines())
    return found


def test_rings_keep_their_budgets():
    """3 % more is free, and 20 lines in any case."""
    found = lines()
    for ring, budget in BUDGET.items():
        for path, most in budget.items():
            grown = found[path] - most
            assert found[path] > 0 and grown <= max(20, 0.03 * most), f"the {ring} grew: {path} has {grown} lines more"
