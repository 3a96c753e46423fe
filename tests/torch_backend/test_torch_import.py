"""How torch finds ringroad, and what happens if it does not work."""

import os
import subprocess
import sys

import pytest
from marks import lacking

ONE_RANK = """
import sys, torch, torch.distributed as dist
dist.init_process_group("{backend}", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.arange(3)
dist.all_reduce(tensor)
assert tensor.tolist() == [0, 1, 2]
print(type(dist.group.WORLD).__name__, type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__)
dist.destroy_process_group()
"""


def python(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | env, capture_output=True, text=True, timeout=60
    )


@lacking((2, 14), "nobody looks for backends")
@pytest.mark.parametrize("backend", ["ringroad", "cpu:ringroad", "RINGROAD"])
def test_needs_no_import(backend):
    done = python(ONE_RANK.format(backend=backend))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["RingroadProcessGroup", "RingroadBackend"]


def test_importing_torch_stays_cheap():
    """Torch's start-up must not import what only ringroad needs."""
    done = python("import sys, torch; print([m for m in sys.modules if m.startswith('ringroad')])")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("what", ["__init__.py", "_native.py"])
def test_importing_torch_survives_a_broken_ringroad(tmp_path, what):
    package = tmp_path / "ringroad"
    package.mkdir()
    (package / "__init__.py").write_text("from ringroad import _native\n")
    (package / what).write_text("raise RuntimeError('broken on purpose')\n")
    done = python(
        "import torch; print(torch.ones(2).sum().item())",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2.0"


def test_an_old_torch_is_told_what_is_supported():
    done = python("import torch; torch.__version__ = '2.7.1'; import ringroad.torch")
    assert done.returncode and "ImportError: ringroad needs torch 2.8 or later" in done.stderr
    assert "2.7.1" in done.stderr
