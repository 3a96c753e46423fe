"""How fast the model is: `python -m ringroad.reproduce.speed` (`make bench-model`)."""

import os
import platform
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ringroad import Candidate, CostModel, Topology
from ringroad._text import bytes_text, significant
from ringroad.reproduce import PAPERS, reproduce
from ringroad.reproduce.plot import draw

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
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        for paper in PAPERS:
            taken = _measured(partial(_draw_all, paper, Path(folder)))
            print(f"ringroad reproduce {paper} --plot: {taken}")
        print(f"all papers: {significant(time.perf_counter() - start)} s; goal 60 s on 2 cores")


if __name__ == "__main__":
    main()
