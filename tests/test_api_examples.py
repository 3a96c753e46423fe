"""Every numbered example runs. Those for launchers and frameworks, from 20 on, are in test_frameworks.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import needs_namespaces

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("[01][0-9]_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path, tmp_path):
    if "import torch" in path.read_text():
        pytest.importorskip("torch")
    if "ringroad.testbed" in path.read_text():
        needs_namespaces()
    environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "RINGROAD_STORE")}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
