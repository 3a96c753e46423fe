"""Times torch.distributed over ringroad and over gloo, which take turns in one run.

    python benchmarks/torch_bench.py              # calls of one rank, then training steps of 4
    python benchmarks/torch_bench.py --part calls
    python benchmarks/torch_bench.py --part steps --ranks 2 --seconds 30 --json record.jsonl

Calls: a blocking call on one element, in a group of one rank. No data moves, so this is the time of Python, torch and
the binding. Steps: DistributedDataParallel on a small CNN and on a transformer of ten million parameters, with the same
data in the same order, one step over ringroad, one over gloo, and so on. The result is the slowest rank's median. If
the replicas of both differ by more than rounding, the benchmark fails.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BACKENDS = ("ringroad", "gloo")
GOAL = 3.0
"""The goal in microseconds for a blocking call of one rank in the process group, without torch's own wrapper."""
ROUNDS = 30
CALLS = 1000


def main() -> None:
    options = parse()
    if "RANK" in os.environ:
        steps(options)
        return
    if options.part in ("calls", "all"):
        calls(options)
    if options.part in ("steps", "all"):
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.ranks)]
        done = subprocess.run([sys.executable, *launcher, __file__, *sys.argv[1:]])
        if done.returncode:
            raise SystemExit(done.returncode)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["calls", "steps", "all"], default="all")
    parser.add_argument("--ranks", type=int, default=4, help="ranks of the training steps [4]")
    parser.add_argument("--seconds", type=float, default=20, help="seconds for each model, approximately [20]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append JSON lines")
    return parser.parse_args()


def record(options: argparse.Namespace, **row: object) -> None:
    if options.json:
        with options.json.open("a") as file:
            print(json.dumps({"torch": torch.__version__, "cores": os.cpu_count()} | row), file=file)


# ------------------------------------------------------------------------------------------------ calls


def calls(options: argparse.Namespace) -> None:
    dist.init_process_group("ringroad", store=dist.HashStore(), rank=0, world_size=1)
    groups = {"ringroad": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    print(f"us per blocking call on one float32, of one rank: the least of {ROUNDS} turns of {CALLS} calls")
    print(f"{'call':<24}{'ringroad':>10}{'gloo':>10}   by torch.distributed")
    worst = 0.0
    for name, make in {**through_torch(), **of_the_group()}.items():
        if name == next(iter(of_the_group())):
            print(f"{'':<44}   by the process group's methods")
        each = {backend: make(group) for backend, group in groups.items()}
        times: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
        for _ in range(ROUNDS):
            for backend, call in each.items():
                start = time.perf_counter()
                for _ in range(CALLS):
                    call()
                times[backend].append((time.perf_counter() - start) / CALLS * 1e6)
        least = {backend: min(one) for backend, one in times.items()}
        print(f"{name:<24}{least['ringroad']:>10.2f}{least['gloo']:>10.2f}")
        record(options, kind="call", name=name, us=least, medians={b: statistics.median(t) for b, t in times.items()})
        if name in of_the_group():
            worst = max(worst, least["ringroad"])
    dist.destroy_process_group()
    print(f"goal: at most {GOAL} us in the process group: {'met' if worst <= GOAL else 'missed'} ({worst:.2f} us)\n")


Make = Callable[[dist.ProcessGroup], Callable[[], object]]


def through_torch() -> dict[str, Make]:
    a, b = torch.zeros(1), torch.zeros(1)
    return {
        "all_reduce": lambda g: lambda: dist.all_reduce(a, group=g),
        "broadcast": lambda g: lambda: dist.broadcast(a, 0, group=g),
        "all_gather_into_tensor": lambda g: lambda: dist.all_gather_into_tensor(b, a, group=g),
        "reduce_scatter_tensor": lambda g: lambda: dist.reduce_scatter_tensor(b, a, group=g),
        "all_to_all_single": lambda g: lambda: dist.all_to_all_single(b, a, group=g),
        "barrier": lambda g: lambda: dist.barrier(group=g),
    }


def of_the_group() -> dict[str, Make]:
    """Direct calls of the group's methods with blocking options, as torch.distributed makes them."""
    a, b = torch.zeros(1), torch.zeros(1)

    def blocking(kind: type) -> object:
        options = kind()
        options.asyncOp = False
        return options

    reduce, cast = blocking(c10d.AllreduceOptions), blocking(c10d.BroadcastOptions)
    gather, scatter = blocking(c10d.AllgatherOptions), blocking(c10d.ReduceScatterOptions)

    def waited(work: dist.Work | None) -> None:
        if work is not None:
            work.wait()

    return {
        "allreduce": lambda g: lambda: waited(g.allreduce([a], reduce)),
        "broadcast (group)": lambda g: lambda: waited(g.broadcast([a], cast)),
        "all_gather_single": lambda g: lambda: waited(g.all_gather_single(b, a, gather)),
        "reduce_scatter_single": lambda g: lambda: waited(g.reduce_scatter_single(b, a, scatter)),
    }


# ------------------------------------------------------------------------------------------------ steps


class Cnn(nn.Module):
    """A classifier of digits of 16 x 16 pixels; a quarter of a million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64 * 16, 200), nn.ReLU(), nn.Linear(200, 10),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    @staticmethod
    def batch(random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(16, 1, 16, 16, generator=random), torch.randint(0, 10, (16,), generator=random)


class Transformer(nn.Module):
    """A transformer that predicts the next of 2,000 tokens; ten million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2000, 320)
        layer = nn.TransformerEncoderLayer(320, 8, 1280, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 7, enable_nested_tensor=False)
        self.head = nn.Linear(320, 2000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.layers(self.embedding(tokens), mask=mask, is_causal=True)).flatten(0, 1)

    @staticmethod
    def batch(random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.randint(0, 2000, (2, 33), generator=random)
        return tokens[:, :-1], tokens[:, 1:].flatten()


class Trained:
    """A model in training over one backend."""

    def __init__(self, kind: type[nn.Module], group: dist.ProcessGroup) -> None:
        torch.manual_seed(0)
        self.model = kind()
        self.replica = DistributedDataParallel(self.model, process_group=group)
        self.optimizer = torch.optim.SGD(self.replica.parameters(), lr=0.01)
        self.seconds: list[float] = []

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.replica(inputs), targets).backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - start)


def steps(options: argparse.Namespace) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    first = dist.get_rank() == 0
    if first:
        print(f"median milliseconds of a training step, {options.ranks} ranks on {os.cpu_count()} cores")
        print(f"{'model':<14}{'parameters':>12}{'steps':>8}{'ringroad':>10}{'gloo':>10}{'ratio':>8}")
    for kind in (Cnn, Transformer):
        trained = {backend: Trained(kind, group) for backend, group in groups.items()}
        random = torch.Generator().manual_seed(dist.get_rank())
        proceed, start = torch.ones(1), time.perf_counter()
        while proceed.item():
            for _ in range(5):
                batch = kind.batch(random)
                for one in trained.values():
                    dist.barrier()
                    one.step(*batch)
            proceed.fill_(time.perf_counter() - start < options.seconds)
            dist.broadcast(proceed, 0)
        agree(trained)
        row = summary(trained)
        if first:
            parameters = sum(parameter.numel() for parameter in trained["gloo"].model.parameters())
            count, ours, theirs = len(trained["gloo"].seconds), row["ringroad"], row["gloo"]
            print(f"{kind.__name__:<14}{parameters:>12,}{count:>8}{ours:>10.2f}{theirs:>10.2f}{theirs / ours:>8.2f}")
            record(options, kind="step", model=kind.__name__, parameters=parameters, ranks=options.ranks, ms=row)
    dist.destroy_process_group()


def summary(trained: dict[str, Trained]) -> dict[str, float]:
    """Milliseconds by backend: the slowest rank's median, without the first steps."""
    medians = torch.tensor([statistics.median(trained[backend].seconds[5:]) for backend in BACKENDS])
    dist.all_reduce(medians, dist.ReduceOp.MAX)
    return dict(zip(BACKENDS, (1e3 * medians).tolist(), strict=True))


def agree(trained: dict[str, Trained]) -> None:
    ours, theirs = (list(trained[backend].model.parameters()) for backend in BACKENDS)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


if __name__ == "__main__":
    main()
