"""Checks tensors on a GPU: needs a Python from 3.11 on with a CUDA build of torch, and a wheel, but no network.

    python tools/check_gpu.py --wheel dist/ringroad-*.whl      with a Python that has torch, but not ringroad
    make test SET=gpu                                              with this checkout

It compares every collective with NumPy, makes calls on streams beside the default one, checks that calls in CUDA graphs
are refused in words, trains with 4 ranks on one GPU beside gloo, and measures how fast tensors are staged beside PCIe.
Prints one line for each check, and ends with status 1 if one failed. Without a GPU it says so and does nothing.
`--device cpu` tries all that needs none.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

LIMIT = timedelta(seconds=120)
"""For a call."""
SECONDS = 300
"""For all checks with some number of ranks."""
LONG = 3_000_001
"""Elements of a long tensor."""
NOT_HERE = ["there are no streams without a GPU", "there are no CUDA graphs without a GPU"]
"""What checks say that a dry run leaves out."""


@contextmanager
def world(name: str, backend: str = "ringroad") -> Iterator[tuple[int, int]]:
    """A process group of all ranks, in a part of its own of the launcher's store."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    options = {"store": dist.PrefixStore(f"{name} {backend}", store), "rank": rank, "world_size": ranks}
    dist.init_process_group(backend, timeout=LIMIT, **options)
    try:
        yield rank, ranks
    finally:
        dist.destroy_process_group()


def finish(work: Any) -> None:
    if work is not None:
        work.wait()


# ---------------------------------------------------------------------------------------------------- collectives


def calls(
    mine: torch.Tensor, of: list[np.ndarray], rank: int, device: str, how: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor | list[torch.Tensor], np.ndarray | None]]:
    """Makes every collective: its name, what it gave and what NumPy says. Inputs are `of`; `mine` is this rank's."""
    from ringroad import _oracle as oracle

    ranks, root, length = len(of), len(of) - 1, len(of[0])

    def meant(name: str, op: str = "sum") -> np.ndarray | None:
        count = length // ranks if name in ("reduce_scatter", "scatter", "alltoall") else length
        return oracle.result(oracle.Case(name, count, op=op, root=root), of, rank)[0]

    def new(count: int) -> torch.Tensor:
        return torch.full((count,), 77, dtype=mine.dtype, device=device)

    def pieces(tensor: torch.Tensor) -> list[torch.Tensor]:
        return [piece.clone() for piece in tensor.chunk(ranks)]

    for op in ("sum", "max", "avg"):
        finish(dist.all_reduce(out := mine.clone(), getattr(dist.ReduceOp, op.upper()), **how))
        yield f"all_reduce {op}", out, meant("allreduce", op)
    finish(dist.broadcast(out := mine.clone(), root, **how))
    yield "broadcast", out, meant("broadcast")
    finish(dist.reduce(out := mine.clone(), root, **how))
    yield "reduce", out, meant("reduce")
    finish(dist.all_gather_into_tensor(out := new(ranks * length), mine, **how))
    yield "all_gather_into_tensor", out, meant("allgather")
    finish(dist.all_gather(outs := [new(length) for _ in of], mine, **how))
    yield "all_gather", outs, meant("allgather")
    finish(dist.reduce_scatter_tensor(out := new(length // ranks), mine, **how))
    yield "reduce_scatter_tensor", out, meant("reduce_scatter")
    finish(dist.reduce_scatter(out := new(length // ranks), pieces(mine), **how))
    yield "reduce_scatter", out, meant("reduce_scatter")
    outs = [new(length) for _ in of] if rank == root else []
    finish(dist.gather(mine, outs or None, root, **how))
    yield "gather", outs, meant("gather")
    finish(dist.scatter(out := new(length // ranks), pieces(mine) if rank == root else None, root, **how))
    yield "scatter", out, meant("scatter")
    finish(dist.all_to_all_single(out := new(length), mine, **how))
    yield "all_to_all_single", out, meant("alltoall")
    sizes = [length // ranks] * ranks
    finish(dist.all_to_all_single(out := new(length), mine, sizes, sizes, **how))
    yield "all_to_all_single with sizes", out, meant("alltoall")
    finish(dist.all_to_all(outs := [new(length // ranks) for _ in of], pieces(mine), **how))
    yield "all_to_all", outs, meant("alltoall")
    sent = dist.isend(mine, (rank + 1) % ranks)
    got = dist.irecv(out := new(length), (rank - 1) % ranks)
    sent.wait()
    got.wait()
    yield "isend and irecv", out, meant("exchange")


def check_collectives(device: str) -> str:
    """All collectives, on short and long, contiguous and strided tensors, synchronous and asynchronous."""
    made = 0
    with world("collectives") as (rank, ranks):
        for dtype, length in (
            ("float32", 60),
            ("float32", LONG // ranks * ranks),
            ("bfloat16", 60),
            ("int64", 6000),
        ):
            of = [np.arange(float(length)) % 50 + ranks * peer for peer in range(ranks)]
            plain = torch.from_numpy(of[rank]).to(device=device, dtype=getattr(torch, dtype))
            strided = torch.stack([plain, plain], dim=1)[:, 1]
            for mine, asynchronous in ((plain, False), (plain, True), (strided, False), (strided, True)):
                how = {"async_op": asynchronous}
                for name, result, expected in calls(mine, of, rank, device, how):
                    made += 1
                    if expected is None:
                        continue
                    parts = result if isinstance(result, list) else [result]
                    found = torch.cat([part.reshape(-1) for part in parts]).cpu().double().numpy()
                    assert np.array_equal(found, expected), f"{name} of {length} {dtype}, {how}: differs from NumPy"
    return f"{made} calls equal NumPy's results"


# ------------------------------------------------------------------------------------------------ streams and graphs


def check_streams(device: str) -> str:
    """A call takes what the caller's stream has computed so far, and what follows on any stream sees the result."""
    if device == "cpu":
        return NOT_HERE[0]
    with world("streams") as (rank, ranks):
        total = sum(range(1, ranks + 1))
        for length in (1000, LONG):
            side, other = torch.cuda.Stream(), torch.cuda.Stream()
            for asynchronous in (False, True):
                with torch.cuda.stream(side):
                    tensor = torch.zeros(length, device=device)
                    torch.cuda._sleep(50_000_000)  # tens of milliseconds
                    tensor += rank + 1
                    finish(dist.all_reduce(tensor, async_op=asynchronous))
                    after = side.record_event()
                    doubled = tensor * 2
                with torch.cuda.stream(other):
                    other.wait_event(after)
                    copied = tensor + 0
                torch.cuda.synchronize()
                assert (doubled == 2 * total).all() and (copied == total).all(), (length, asynchronous)
        many = [torch.ones(LONG, device=device) for _ in range(4)]
        works = [dist.all_reduce(one, async_op=True) for one in many]
        for work in works[::-1] if rank else works:
            work.wait()
        assert all((one == ranks).all() for one in many)
        future = dist.all_reduce(tensor := torch.ones(LONG, device=device), async_op=True).get_future()
        assert (future.wait()[0] == ranks).all()
    return "results are complete on the caller's and on other streams"


def check_graphs(device: str) -> str:
    """A CUDA graph cannot hold a call: it says so, and the group goes on."""
    if device == "cpu":
        return NOT_HERE[1]
    with world("graphs") as (_, ranks):
        tensor, text = torch.ones(1000, device=device), ""
        torch.cuda.synchronize()
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            tensor * 2
            try:
                dist.all_reduce(tensor)
            except RuntimeError as error:
                text = str(error)
        assert "CUDA graph" in text, f"the error was {text!r}"
        dist.all_reduce(tensor := torch.ones(1000, device=device))
        assert (tensor == ranks).all()
    return "refused in words"


# -------------------------------------------------------------------------------------------------------- training


def losses(backend: str, device: str) -> list[float]:
    """Those of a few steps of DistributedDataParallel; all ranks share the device."""
    found = []
    with world("training", backend) as (rank, ranks):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(device)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05, momentum=0.9)
        generator = torch.Generator().manual_seed(1)
        teacher = torch.randn(64, 8, generator=generator)
        for _ in range(20):
            inputs = torch.randn(32 * ranks, 64, generator=generator)
            targets = (inputs @ teacher).chunk(ranks)[rank].to(device)
            loss = torch.nn.functional.mse_loss(parallel(inputs.chunk(ranks)[rank].to(device)), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            found.append(mean.item() / ranks)
    return found


def check_training(device: str) -> str:
    ours, gloo = losses("ringroad", device), losses("gloo", device)
    assert np.allclose(ours, gloo, rtol=1e-4), f"ringroad {ours}, gloo {gloo}"
    assert ours[-1] < ours[0], ours
    return f"losses as with gloo: {ours[0]:.3f} to {ours[-1]:.3f}"


# ----------------------------------------------------------------------------------------------------------- speed


def seconds_of(action: Callable[[], Any], device: str, times: int = 5) -> float:
    """The least time of some tries, after one to warm up."""
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    taken = []
    for _ in range(times + 1):
        synchronize()
        start = time.perf_counter()
        action()
        synchronize()
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


def check_speed(device: str) -> str:
    """An all_reduce beside the copies that it consists of, all measured here, by two ranks at the same time."""
    size = (8 if device == "cpu" else 256) << 20
    with world("speed") as (_, ranks):
        tensor = torch.ones(size // 4, device=device)
        pageable = torch.empty_like(tensor, device="cpu")
        pinned = pageable if device == "cpu" else pageable.pin_memory()

        def there_and_back(memory: torch.Tensor) -> None:
            memory.copy_(tensor, non_blocking=True)
            tensor.copy_(memory, non_blocking=True)

        def rate(action: Callable[[], Any]) -> str:
            dist.barrier()
            return f"{2 * size / seconds_of(action, device) / 1e9:.2f}"

        copied, plain = rate(lambda: there_and_back(pinned)), rate(lambda: there_and_back(pageable))
        reduced = rate(lambda: dist.all_reduce(tensor))
        host = rate(lambda: dist.all_reduce(pageable))
    return (
        f"{size >> 20} MiB there and back on each of {ranks} ranks, in GB/s: all_reduce {reduced}, pinned copies "
        f"{copied}, plain copies {plain}; all_reduce in host memory {host}"
    )


# ------------------------------------------------------------------------------------------------------------ ranks

CHECKS: dict[int, list[Callable[[str], str]]] = {
    2: [check_collectives, check_streams, check_graphs, check_speed],
    4: [check_collectives, check_training],
}
"""The checks for some numbers of ranks, all of which share one device."""


def run_checks(device: str, ranks: int) -> bool:
    """As one of the ranks. Stops at a failure: the others have an error, too. Rank 0 prints."""
    import ringroad.torch  # noqa: F401  older versions of torch do not find it by themselves

    if device == "cuda":
        torch.cuda.set_device(0)
    for check in CHECKS[ranks]:
        name = check.__name__.removeprefix("check_")
        try:
            line = check(device)
        except Exception:
            print(f"FAILED   {name}, {ranks} ranks, rank {os.environ['RANK']}\n{traceback.format_exc()}", flush=True)
            return False
        if os.environ["RANK"] == "0":
            print(f"{'skipped' if line in NOT_HERE else 'passed '}  {name}, {ranks} ranks: {line}", flush=True)
    return True


def launch(device: str, ranks: int, environment: dict[str, str]) -> bool:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environment = environment | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": str(ranks),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, __file__, "--device", device, "--as-rank-of", str(ranks)]
    started = [subprocess.Popen(command, env=environment | {"RANK": str(rank)}) for rank in range(ranks)]
    deadline = time.monotonic() + SECONDS
    try:
        return not any([process.wait(max(deadline - time.monotonic(), 1)) for process in started])
    except subprocess.TimeoutExpired:
        print(f"FAILED   {ranks} ranks have not ended within {SECONDS} s", flush=True)
        return False
    finally:
        for process in started:
            process.kill()
            process.wait()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="use this wheel, not an installed ringroad")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: a dry run without a GPU")
    parser.add_argument("--as-rank-of", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.as_rank_of:
        return 0 if run_checks(options.device, options.as_rank_of) else 1
    if options.device == "cuda" and not torch.cuda.is_available():
        build = (
            f"torch {torch.__version__} is built for CUDA {torch.version.cuda}"
            if torch.version.cuda
            else "torch is built without CUDA"
        )
        print(f"skipped: there is no GPU that torch can use ({build})")
        return 0
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU only'}")
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if options.wheel:  # its extension cannot be loaded out of the archive
            zipfile.ZipFile(options.wheel).extractall(folder)
            environment["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        passed = [launch(options.device, ranks, environment) for ranks in CHECKS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
