"""How fast the model is: `python -m ringroad.reproduce.speed` (`make bench-model`)."""

import os
import platform
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ringroad import Candidate, CostModel, Schedule, Topology, find
from ringroad._text import bytes_text, significant
from ringroad.reproduce import PAPERS, reproduce
from ringroad.reproduce.plot import draw
from ringroad.reproduce.random_graphs import of_links, regular

LARGEST = "torus:128x128"
SIZES = [32 << exponent for exponent in range(25)]
"""32 B to 512 MiB."""


def _measured(work: Callable[[], object]) -> str:
    """Seconds that passed, and that processors worked."""
    start, busy = time.perf_counter(), time.process_time()
    work()
    passed, busy = time.perf_counter() - start, time.process_time() - busy
    return f"{significant(passed)} s ({significant(busy)} s of processor time)"


def _compare(network: Topology, rows: list[list[Candidate]]) -> None:
    rows.extend(CostModel().compare("allreduce", network, SIZES))


def _draw_all(paper: str, folder: Path) -> None:
    for report in reproduce(paper):
        draw(report, folder)


def _switched() -> Topology:
    """Two hosts of eight accelerators, each with a fast switch of its own, and one between all of them."""
    cables = [(rank, 16 + rank // 8, 8.0) for rank in range(16)] + [(rank, 18, 1.0) for rank in range(16)]
    return of_links("two-hosts", 16, [link for a, b, c in cables for link in ((a, b, c), (b, a, c))], 19)


def _make(name: str, network: Topology, collective: str) -> None:
    Schedule.build(name, network, collective).verify()


def _synthesis() -> None:
    """What is made for a graph: schedules that are made and verified, and networks that are found."""
    random = regular(1000, 2)
    goals = [
        ("bfb", Topology("torus:50x50"), "allgather", "1 s"),
        ("bfb", Topology("hypercube:10"), "allgather", "1 s"),
        ("bfb", random, "allgather", "0.5 s"),
        ("trees:64", regular(64, 2), "allgather", "0.3 s"),
        ("trees:64", _switched(), "allgather", "0.1 s"),
        ("weighted-trees:2048", Topology("without(torus:8x8, 0-1, 20-21)"), "allreduce", "1 s"),
        ("spanning-trees:2048", Topology("without(torus:8x8, 0-1, 20-21, 40-48)"), "allreduce", "1 s"),
    ]
    for name, network, collective, goal in goals:
        taken = _measured(partial(_make, name, network, collective))
        print(f"{name} made and verified, {collective} on {network.spec}: {taken}; goal {goal}")
    print(f"find(1024, 4): {_measured(lambda: find(1024, 4))}; goal 0.1 s with its table")
    print(f"find(2000, 4): {_measured(lambda: find(2000, 4))}; goal 0.1 s with its table\n")


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores of {platform.machine()}, load {significant(os.getloadavg()[0])} before\n")
    network = Topology(LARGEST)
    CostModel().explain("allreduce", Topology("torus:2x2"), 1)  # What is made once is made.
    sizes = f"{len(SIZES)} sizes, {bytes_text(SIZES[0])} to {bytes_text(SIZES[-1])}"
    for _ in range(3):
        rows: list[list[Candidate]] = []
        taken = _measured(partial(_compare, network, rows))
        what = f"all {len(rows[0])} allreduces on {LARGEST} ({network.ranks} ranks), {sizes}"
        print(f"{what}: {taken}; goal 1 s on 2 cores")
    print()
    _synthesis()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        for paper in PAPERS:
            taken = _measured(partial(_draw_all, paper, Path(folder)))
            print(f"ringroad reproduce {paper} --plot: {taken}")
        print(f"all papers: {significant(time.perf_counter() - start)} s; goal 60 s on 2 cores")


if __name__ == "__main__":
    main()
