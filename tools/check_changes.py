"""How soon a job gets used to a changed network, on an emulated one (docs/testbed.md).

python tools/check_changes.py adapt           # a slow cable, against a job that was told of it, and its recovery
python tools/check_changes.py random          # 100 random changes in a row: right sums, no hang
"""

import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import ringroad

WATCHED = {"RINGROAD_BUDGET": "adaptation=500ms"}
Timed = list[tuple[float, float]]
"""When each call has ended, in seconds since the machine started, and how long it took."""


def calls(comm: Any, count: int, seconds: float, least: int) -> tuple[bool, Timed, list[str], str]:
    """Calls for so long, as rank 0 measures it. Returns whether all sums were right, the times, the changes that were
    noticed so far, and the algorithm that is used now."""
    array = (np.arange(count) % 1000 + comm.rank).astype(np.float32)
    expected = (comm.size * (np.arange(count) % 1000) + comm.size * (comm.size - 1) / 2).astype(np.float32)
    out, times, right, end = np.empty_like(array), [], True, time.monotonic() + seconds
    go_on = np.ones(1, dtype=np.int8)
    while go_on[0]:
        start = time.monotonic()
        comm.allreduce(array, out)
        now = time.monotonic()
        times.append((now, now - start))
        right = right and bool((out == expected).all())
        go_on[0] = len(times) < least or now < end
        go_on = comm.broadcast(go_on, root=0)
    return right, times, [str(change) for change in comm.network.changes], comm.algorithm_for("allreduce", 4 * count)


def changed(topology: ringroad.Topology, pair: set[int], factor: float) -> ringroad.Topology:
    """The network with a slow cable."""
    links = [
        (source, target, rate / (factor if {source, target} == pair else 1.0), *rest)
        for source, target, rate, *rest in topology._links()
    ]
    return ringroad.Topology._from_links("slowed", topology.ranks, topology.nodes, links, list(topology.dimensions))


def checked(results: list[Any]) -> Any:
    if not all(result[0] for result in results):
        sys.exit("a sum is wrong")
    return results[0]


def adapt(arguments: argparse.Namespace) -> None:
    """Measures a job whose cable becomes slow and recovers, and jobs that were told the truth."""
    topology = ringroad.Topology(arguments.network)
    count, factor = arguments.bytes // 4, arguments.factor

    def told(network: ringroad.Topology) -> float:
        with ringroad.testbed.emulate(network, rate=arguments.rate, timeout=120) as bed:
            return median(took for _, took in checked(bed.run(calls, count, 4.0, 8))[1][3:])

    whole, slow = told(topology), told(changed(topology, {0, 1}, factor))
    with ringroad.testbed.emulate(topology, rate=arguments.rate, timeout=120, tell=arguments.tell, env=WATCHED) as bed:
        usual = median(took for _, took in checked(bed.run(calls, count, 4.0, 12))[1][3:])
        rows = []
        for name, event, best, seconds in (
            ("slow", lambda: bed.slow(0, 1, factor), slow, arguments.seconds),
            # Calls that avoid the cable do not show that it is mended: the ranks look at times.
            ("mended", bed.restore, whole, 70.0),
        ):
            happened: list[float] = []

            def happen(event: Callable[[], None] = event, happened: list[float] = happened) -> None:
                event()
                happened.append(time.monotonic())

            timer = threading.Timer(1.0, happen)
            timer.start()
            _, times, changes, algorithm = checked(bed.run(calls, count, seconds, 1))
            timer.join()
            # Workers run on this machine, and so by the same clock.
            late = [(end - happened[0], took) for end, took in times]
            good = [end for end, took in late if end - took > 0.0 and took <= 1.25 * best]
            steady = [took for end, took in late if end > 3.0]
            rows.append(
                {
                    "after": name,
                    "told_ms": 1e3 * best,
                    "within_1.25_after_s": good[0] if good else None,
                    "ms_after_3_s": 1e3 * median(steady) if steady else None,
                    "ms_at_the_end": 1e3 * median(took for _, took in times[-9:]),
                    "ratio_after_3_s": median(steady) / best if steady else None,
                    "algorithm": algorithm,
                    "changes": changes,
                }
            )
    record = {"network": arguments.network, "bytes": arguments.bytes, "usual_ms": 1e3 * usual, "rows": rows}
    print(json.dumps(record, indent=1))


def randomly(arguments: argparse.Namespace) -> None:
    """Lets cables change at random while calls run."""
    draw = random.Random(arguments.seed)
    topology = ringroad.Topology(arguments.network)
    cables = sorted({tuple(sorted((source, target))) for source, target, *_ in topology._links()})
    with ringroad.testbed.emulate(topology, rate=arguments.rate, timeout=60, tell=arguments.tell, env=WATCHED) as bed:
        done = 0
        while done < arguments.events:
            for index in range(min(10, arguments.events - done)):
                if draw.random() < 0.25:
                    bed.at(1 + index * arguments.pause, "restore")
                else:
                    a, b = draw.choice(cables)
                    bed.at(1 + index * arguments.pause, f"slow {a} {b} {draw.choice([2, 4, 8])}")
                done += 1
            _, times, changes, _ = checked(bed.run(calls, arguments.bytes // 4, 1 + 10 * arguments.pause, 1))
            print(f"{done} changes made, {len(changes)} noticed, {len(times)} calls", flush=True)
        bed.restore()
        _, times, changes, algorithm = checked(bed.run(calls, arguments.bytes // 4, 20.0, 1))
        print(f"in the end {algorithm}, {1e3 * median(took for _, took in times[-5:]):.1f} ms, {len(changes)} noticed")


def main() -> None:
    """Runs one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["adapt", "random"])
    parser.add_argument("--network", default="ring:8")
    parser.add_argument("--rate", default="100Mbit")
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--factor", type=float, default=4.0)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--pause", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tell", default="all", choices=["all", "graph", "nothing"])
    arguments = parser.parse_args()
    {"adapt": adapt, "random": randomly}[arguments.what](arguments)


if __name__ == "__main__":
    main()
