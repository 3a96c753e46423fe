"""Tensors that go by way of the host, like CUDA tensors. There is no accelerator here: CPU tensors stand for device
tensors.
"""

import contextlib
import importlib.util
import io
import itertools
from collections.abc import Iterator
from unittest import mock

import helpers
import torch
import torch.distributed as dist
from ringroad.torch import tensors
from ringroad.torch.backend import RingroadBackend

from ranks import world
from ranks.values import MOVING, REDUCING, UNEVEN, Case, Running


@contextlib.contextmanager
def staged() -> Iterator[None]:
    """All tensors count as being on a device."""
    with (
        mock.patch.object(RingroadBackend, "_plain", lambda *args, **kwargs: NotImplemented),
        mock.patch.object(tensors, "is_here", lambda tensor: False),
    ):
        yield


def check_tensors() -> None:
    """Every call, with even and uneven pieces, synchronous, and asynchronous from and to tensors with gaps."""
    with staged(), world() as (_, ranks):
        for index, kind in enumerate(REDUCING + MOVING):
            for uneven, async_op in itertools.product((False, True) if kind in UNEVEN else (False,), (False, True)):
                case = Case(kind, 1000 + index, root=ranks - 1, async_op=async_op, gaps=async_op, uneven=uneven)
                Running(case).finish()


def check_modes() -> None:
    """Modes of the caller's thread: inference tensors, and parameters."""
    with staged(), world() as (rank, ranks):
        with torch.inference_mode():
            inferred = torch.full((2000,), float(rank))
            works = [dist.all_reduce(inferred, async_op=True)]
        with torch.no_grad():
            works.append(
                dist.all_reduce(parameter := torch.nn.Parameter(torch.full((2000,), float(rank))), async_op=True)
            )
        for work in works:
            work.wait()
        assert (inferred == sum(range(ranks))).all() and (parameter == sum(range(ranks))).all()
        parameter.sum().backward()
        negated = torch.complex(torch.ones(2000), torch.full((2000,), float(rank))).conj().imag
        assert negated.is_neg()
        dist.broadcast(negated, 1)
        assert (negated == -1).all()


def check_graphs() -> None:
    """Calls are refused while a CUDA graph is recorded."""
    with staged(), world() as (rank, ranks):
        with mock.patch.object(tensors, "is_recorded", lambda tensor: True):
            for call in (
                lambda: dist.all_reduce(torch.ones(2000)),
                lambda: dist.all_gather([torch.ones(3) for _ in range(ranks)], torch.ones(3)),
                lambda: dist.all_to_all_single(torch.ones(ranks), torch.ones(ranks), [1] * ranks, [1] * ranks),
                lambda: dist.send(torch.ones(3), (rank + 1) % ranks),
            ):
                kind, text = helpers.failure_of(call)
                assert kind == "RuntimeError" and "CUDA graph" in text, (kind, text)
        dist.all_reduce(tensor := torch.ones(2000))
        assert (tensor == ranks).all()


def check_on_a_gpu() -> None:
    """The checks of tools/check_gpu.py, without a GPU. (Training has tests of its own, and takes seconds.)"""
    path = helpers.ROOT / "tools" / "check_gpu.py"
    spec = importlib.util.spec_from_file_location("check_gpu", path)
    check_gpu = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check_gpu)
    check_gpu.LONG = 3001
    for check in (check_gpu.check_collectives, check_gpu.check_speed):
        print(check("cpu"))
    with mock.patch.object(torch.cuda, "is_available", lambda: False):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert check_gpu.main([]) == 0
        assert "skipped: there is no GPU" in said.getvalue()
