"""How torch finds ringroad, and what happens if it does not work."""

import os
import subprocess
import sys

from helpers import PROGRAMS
from marks import lacking


def python(*arguments, **env):
    return subprocess.run(
        [sys.executable, *arguments], env=os.environ | env, capture_output=True, text=True, timeout=60
    )


@lacking((2, 14), "nobody looks for backends")
def test_needs_no_import():
    """Torch finds ringroad by any form of its name, and imports nothing of it before. An old one is told so."""
    done = python(PROGRAMS / "forks_after_torch.py")
    first, *others = done.stdout.splitlines()
    assert first == "[]", "importing torch stays cheap"
    assert others == ["RingroadProcessGroup RingroadBackend"] * 3, done.stderr
    assert "ImportError: ringroad needs torch 2.8 or later" in done.stderr and "2.7.1" in done.stderr


def test_importing_torch_survives_a_broken_ringroad(tmp_path):
    package = tmp_path / "ringroad"
    package.mkdir()
    (package / "__init__.py").write_text("from ringroad import _native\n")
    (package / "_native.py").write_text("raise RuntimeError('broken on purpose')\n")
    done = python(
        "-c",
        "import torch; print(torch.ones(2).sum().item())",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2.0"
