"""Every numbered example runs, some of them by `make check-all` only.

Those for launchers and frameworks, from 20 on, are in test_frameworks.py.
"""

import os
import subprocess
import sys

import pytest
from helpers import FULL, ROOT, needs_testbed

# Tests of torch do the same; each of these starts four processes that import torch, some of them several times.
LONG = (
    "06_cut_cable.py",
    "10_ddp_digits.py",
    "11_fsdp2_digits.py",
    "12_dtensor.py",
    "13_torch_topology.py",
    "15_torch_moe.py",
    "16_torch_survivors.py",
    "17_slow_network.py",
    "18_local_sgd.py",
    "19_elastic.py",
)
SHORTER = {"10_ddp_digits.py": ["--ranks", "2", "--epochs", "2"]}
EXAMPLES = sorted((ROOT / "examples").glob("[01][0-9]_*.py"))


@pytest.mark.timeout(330)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path, tmp_path):
    if path.name in LONG and not FULL:
        pytest.skip("takes up to a minute: make check-all")
    for module, code in (("torch", "import torch"), ("networkx", ".to_graph()")):
        if code in path.read_text():
            pytest.importorskip(module)
    if "ringroad.testbed" in path.read_text():
        needs_testbed()
    environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "RINGROAD_STORE")}
    done = subprocess.run(
        [sys.executable, str(path), *SHORTER.get(path.name, [])],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
