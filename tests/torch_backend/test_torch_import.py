"""How torch finds ringroad, and what happens if it does not work."""

import os
import subprocess
import sys

from marks import lacking

# What each child of a process that has imported torch does, and nothing else.
FORKS = """
import os, sys, torch, torch.distributed as dist
print([module for module in sys.modules if module.startswith("ringroad")], flush=True)
for backend in ("ringroad", "cpu:ringroad", "RINGROAD", ""):
    if os.fork() == 0:
        if not backend:
            torch.__version__ = "2.7.1"
            import ringroad.torch
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        tensor = torch.arange(3)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [0, 1, 2]
        print(type(dist.group.WORLD).__name__, type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__)
        dist.destroy_process_group()
        sys.exit()
    os.wait()
"""


def python(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | env, capture_output=True, text=True, timeout=60
    )


@lacking((2, 14), "nobody looks for backends")
def test_needs_no_import():
    """Torch finds ringroad by any form of its name, and imports nothing of it before; an old one is told what it lacks."""
    done = python(FORKS)
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
        "import torch; print(torch.ones(2).sum().item())",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2.0"
