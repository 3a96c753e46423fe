"""One rank of the benchmark; rank 0 prints one JSON object per line.

Started by `python -m ringroad.bench`, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set and a `Plan` as argument.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import ringroad.torch
from ringroad import Communicator
from ringroad._ucx import _ucx_wheel
from ringroad.bench.measure import Burst, Samples, Statistics, longest_burst

OURS = "ringroad"


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    sizes: list[int]
    peers: list[str]
    calls: int | None
    """Timed calls per size and peer; None: as many as fit into `seconds`."""
    warmup: int
    seconds: float
    """For one size, all peers together."""
    check: bool
    numpy_calls: int


def main() -> None:
    plan = Plan(**json.loads(sys.argv[1]))
    torch.set_num_threads(1)
    dist.init_process_group(OURS)
    Rank(plan).run()
    dist.destroy_process_group()


class Rank:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.groups: dict[str, Any] = {OURS: dist.group.WORLD}
        for peer in plan.peers:
            self.groups[peer] = dist.new_group(backend=peer)
        self.control: Any = dist.new_group(backend="gloo")
        self.communicator = ringroad.torch.communicator()

    def run(self) -> None:
        self.print({"kind": "transport", "ranks": self.ranks, "transport": self.communicator.transport})
        if self.plan.numpy_calls:
            self.numpy_latency()
        for size in self.plan.sizes:
            self.measure(size)

    def print(self, row: dict[str, Any]) -> None:
        if self.rank == 0:
            print(json.dumps(row), flush=True)

    def measure(self, size: int) -> None:
        bursts = {peer: self.burst(peer, size) for peer in self.groups}
        calls, rounds = self.schedule(bursts)
        times: dict[str, list[Samples]] = {peer: [] for peer in bursts}
        for round_ in range(rounds):
            # Every other round in the opposite order: nobody always comes first.
            for peer in list(bursts)[:: 1 if round_ % 2 == 0 else -1]:
                times[peer].append(bursts[peer].run(calls))
        for peer, burst in bursts.items():
            gathered = self.gather((np.stack(times[peer]), burst.wrong))
            if self.rank == 0:
                statistics = Statistics.of(np.stack([samples for samples, _ in gathered]))
                self.print(self.row(peer, size, statistics, sum(wrong for _, wrong in gathered)))

    def burst(self, peer: str, size: int) -> Burst:
        group, buffer = self.groups[peer], torch.empty(size // 4, dtype=torch.float32)
        return Burst(
            self.rank,
            self.ranks,
            buffer.numpy(),
            lambda: dist.all_reduce(buffer, group=group),
            lambda: dist.barrier(group=group),
            self.plan.check,
        )

    def schedule(self, bursts: dict[str, Burst]) -> tuple[int, int]:
        """Warms up; then calls per burst and number of rounds, the same on all ranks."""
        longest = longest_burst(self.ranks, 61 * self.ranks + self.ranks**2)
        slowest, start = 0.0, time.perf_counter()
        for burst in bursts.values():
            slowest = max(slowest, float(np.median(burst.run(min(longest, self.plan.warmup)))))
        warmup = time.perf_counter() - start
        slowest, warmup = (max(column) for column in zip(*self.gather((slowest, warmup)), strict=True))
        if self.plan.calls is not None:
            calls = min(longest, self.plan.calls)
            return calls, -(-self.plan.calls // calls)
        # Short bursts of slow calls, so that there are rounds enough to take turns in.
        calls = max(1, min(longest, int(self.plan.seconds / 8 / slowest)))
        per_round = warmup * (calls + 1) / (min(longest, self.plan.warmup) + 1)
        return calls, max(3, min(400, int(self.plan.seconds / per_round)))

    def row(self, peer: str, size: int, statistics: Statistics, wrong: int) -> dict[str, Any]:
        algbw = size / statistics.time
        return {
            "kind": "allreduce",
            "peer": peer,
            "ranks": self.ranks,
            "size": size,
            "count": size // 4,
            "type": "float32",
            "redop": "sum",
            "algorithm": self.communicator.algorithm_for("allreduce", size) if peer == OURS else None,
            **asdict(statistics),
            "algbw": algbw,
            "busbw": algbw * 2 * (self.ranks - 1) / self.ranks,
            "wrong": wrong if self.plan.check else None,
        }

    def numpy_latency(self) -> None:
        """ringroad.Communicator from Python, without torch."""
        store: Any = dist.distributed_c10d.PrefixStore("bench-numpy", dist.distributed_c10d._get_default_store())
        with Communicator(store, self.rank, self.ranks, name="numpy", ucx_wheel=_ucx_wheel()) as comm:
            array = np.empty(2, np.float32)
            burst = Burst(self.rank, self.ranks, array, lambda: comm.allreduce(array, array), comm.barrier)
            calls = longest_burst(self.ranks, 61 * self.ranks + self.ranks**2)
            burst.run(calls)
            samples = np.stack([burst.run(calls) for _ in range(-(-self.plan.numpy_calls // calls))])
            gathered = self.gather((samples, burst.wrong))
        statistics = Statistics.of(np.stack([samples for samples, _ in gathered]))
        wrong = sum(wrong for _, wrong in gathered)
        self.print({"kind": "numpy", "ranks": self.ranks, "size": 8, **asdict(statistics), "wrong": wrong})

    def gather(self, mine: Any) -> list[Any]:
        everybody: list[Any] = [None] * self.ranks
        dist.all_gather_object(everybody, mine, group=self.control)
        return everybody


if __name__ == "__main__":
    main()
