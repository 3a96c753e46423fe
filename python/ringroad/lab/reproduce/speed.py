"""Times the cost model: `python -m ringroad.lab.reproduce.speed` (`make bench SET=model`)."""

import multiprocessing
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from ringroad._native import CostModel, Schedule, Topology
from ringroad._support.text import bytes_text, significant
from ringroad.lab._finding import find
from ringroad.lab.reproduce import PAPERS, reproduce
from ringroad.lab.reproduce.graphs import of_links, regular
from ringroad.lab.reproduce.plot import draw
from ringroad.lab.routes import ChannelsBy, Routes, balanced
from ringroad.lab.synthesis import alltoall_flow

Made = TypeVar("Made")
LARGEST = "torus:128x128"
SIZES = [32 << exponent for exponent in range(25)]
"""32 B to 512 MiB."""


def _made(work: Callable[[], Made]) -> tuple[Made, str]:
    """The result of `work`, and a text with its elapsed seconds and processor time."""
    start, busy = time.perf_counter(), time.process_time()
    made = work()
    passed, busy = time.perf_counter() - start, time.process_time() - busy
    return made, f"{significant(passed)} s ({significant(busy)} s of processor time)"


def _measured(work: Callable[[], object]) -> str:
    """The text with the times of `work`."""
    return _made(work)[1]


def _draw_all(paper: str, folder: Path) -> None:
    for report in reproduce(paper):
        draw(report, folder)


def _switched() -> Topology:
    """Two hosts of eight accelerators; each host has a fast switch, and one switch joins all accelerators."""
    cables = [(rank, 16 + rank // 8, 8.0) for rank in range(16)] + [(rank, 18, 1.0) for rank in range(16)]
    return of_links("two-hosts", 16, [link for a, b, c in cables for link in ((a, b, c), (b, a, c))], 19)


def _make(name: str, network: Topology, collective: str) -> None:
    Schedule.build(name, network, collective).verify()


def _synthesis() -> None:
    """Times synthesis: makes and verifies schedules for graphs, and finds networks."""
    unlike = regular(1000, 2)
    goals = [
        ("bfb", Topology("torus:50x50"), "allgather", "1 s"),
        ("bfb", Topology("hypercube:10"), "allgather", "1 s"),
        ("bfb", unlike, "allgather", "0.5 s"),
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


def _damaged() -> Topology:
    """A torus of 8x8x8 without 3 % of its cables."""
    whole = Topology("torus:8x8x8")
    cables = sorted({(a, b) for a, b, *_ in whole.links if a < b})
    return whole.without_links(random.Random(8).sample(cables, round(0.03 * len(cables))))


FLOWS: dict[str, tuple[Callable[[], Topology], str]] = {
    "generalized-kautz:4:1000": (lambda: Topology("generalized-kautz:4:1000"), "5 s"),
    "generalized-kautz:4:2000": (lambda: Topology("generalized-kautz:4:2000"), "15 s, 250 MB"),
    "random graph of 1000 ranks and 4 links out of each": (lambda: regular(1000, 2), "4 s"),
    "hypercube:10": (lambda: Topology("hypercube:10"), "3 s"),
    "torus:8x8x8 without 3 % of its cables": (_damaged, "1.5 s"),
}
"""Networks for which a flow is found, and the goals of time and memory on 2 cores."""


def _flow(name: str) -> tuple[str, float, int]:
    """The times, the gap, and the peak memory of this process in bytes."""
    network = FLOWS[name][0]()
    found, taken = _made(partial(alltoall_flow, network, gap=0.01))
    return taken, found.gap, _most_memory()


def _most_memory() -> int:
    """The peak memory of this process in bytes. getrusage would count the parent's, too."""
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def _flows() -> None:
    """Times all-to-all flows, each in a process of its own, whose whole memory is measured."""
    context = multiprocessing.get_context("spawn")
    for name, (_, goal) in FLOWS.items():
        with ProcessPoolExecutor(1, context) as alone:
            taken, gap, most = alone.submit(_flow, name).result()
        proof = f"a gap of {100 * gap:.2f} %, at most {most / 1e6:.0f} MB with Python"
        print(f"all-to-all on {name}: {taken}, {proof}; goal {goal}")
    print()


def _channels(routes: Routes, by: ChannelsBy) -> str:
    """A text with the number of virtual channels and the time to assign them."""
    found, taken = _made(partial(routes.with_channels, by))
    return f"{found.channels} virtual channels by {by} in {taken}"


def _routes() -> None:
    """Times balanced single paths, and deadlock-free virtual channels by both methods."""
    networks = [Topology("generalized-kautz:4:500"), Topology("generalized-kautz:4:1000"), regular(500, 2)]
    for network in networks:
        routes, taken = _made(partial(balanced, network, channels=None))
        print(f"balanced routes on {network.spec}: {taken}, {routes.ratio:.4f} of the bound; goal 15 s, 1.01")
        print(f"  {_channels(routes, 'turns')}; goal 6 channels")
        print(f"  {_channels(routes, 'lash')}, to compare with")
    print()


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores of {platform.machine()}, load {significant(os.getloadavg()[0])} before\n")
    network = Topology(LARGEST)
    # Builds what the model builds once, so that it is not timed.
    CostModel().explain("allreduce", Topology("torus:2x2"), 1)
    sizes = f"{len(SIZES)} sizes, {bytes_text(SIZES[0])} to {bytes_text(SIZES[-1])}"
    for _ in range(3):
        found, taken = _made(partial(CostModel().compare, "allreduce", network, SIZES))
        what = f"all {len(found.sizes[0].candidates)} allreduces on {LARGEST} ({network.ranks} ranks), {sizes}"
        print(f"{what}: {taken}; goal 1 s on 2 cores")
    print()
    _synthesis()
    _flows()
    _routes()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        for paper in PAPERS:
            taken = _measured(partial(_draw_all, paper, Path(folder)))
            print(f"ringroad lab reproduce {paper} --plot: {taken}")
        print(f"all papers: {significant(time.perf_counter() - start)} s; goal 60 s on 2 cores")


if __name__ == "__main__":
    main()
