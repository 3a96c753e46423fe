"""How soon a job gets used to a changed network, on an emulated one (docs/testbed.md).

python tools/check_changes.py adapt           # a slow cable, against a job that was told of it, and its recovery
python tools/check_changes.py random          # 100 random changes in a row: right sums, no hang
python tools/check_changes.py programs        # 2,000 random programs in legal orders meanwhile: right results, no hang
"""

import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ringroad

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from programs import legal_orders

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


NETWORKS: list[tuple[str, list[int] | None, dict[str, str]]] = [
    ("ring:2", None, {}),
    ("ring:4", None, {"RINGROAD_BUDGET": "adaptation=200ms"}),
    ("ring:2", [2, 2], {}),
    ("ring:4", None, {}),
    ("ring:3", [2, 1, 1], {"RINGROAD_BUDGET": "adaptation=200ms"}),
]
"""Where programs run: the network, the ranks of its hosts, and settings. Nobody tells the ranks what it is."""
BATCH, BATCHES = 20, 3
"""How many programs share their communicators, and how many such batches run in a testbed."""


@contextmanager
def weather(bed: Any, draw: random.Random) -> Iterator[None]:
    """Lets cables become slow and recover at random moments."""
    cables = sorted({tuple(sorted(cable.ends)) for cable in bed.network.wiring.cables})
    ended = threading.Event()

    def change() -> None:
        while not ended.wait(draw.uniform(0.5, 4.0)):
            if draw.random() < 0.3:
                bed.restore()
            else:
                # Ranks may share hosts, which have names.
                a, b = (bed.network.wiring.names[end] for end in draw.choice(cables))
                bed.slow(a, b, draw.choice([2, 4, 8]))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def programs(arguments: argparse.Namespace) -> None:
    """Runs random programs in legal orders while cables change. Ends at the first that hangs or has a wrong result."""
    start, done, failed = time.monotonic(), 0, threading.Event()
    lock = threading.Lock()

    def run(turn: int) -> None:
        nonlocal done
        network, hosts, env = NETWORKS[turn % len(NETWORKS)]
        if arguments.adaptation is not None:
            env = {"RINGROAD_BUDGET": f"adaptation={arguments.adaptation}"}
        where = f"{network}{f' of hosts {hosts}' if hosts else ''}{' with ' if env else ''}{' '.join(env.values())}"
        settings = {"tell": "nothing", "hosts": hosts, "env": env, "timeout": arguments.limit}
        if failed.is_set():
            return
        with ringroad.testbed.emulate(network, rate=arguments.rate, **settings) as bed:
            for batch in range(BATCHES):
                first = (turn * BATCHES + batch) * BATCH
                seeds = [f"{arguments.seed}.{at}" for at in range(first, min(first + BATCH, arguments.count))]
                if not seeds or failed.is_set():
                    return
                with weather(bed, random.Random(f"{arguments.seed} {first}")):
                    played = bed.run(legal_orders.play, seeds, arguments.limit)
                changes = bed.run(lambda comm: len(comm.network.changes))[0] if not played[0].wrong else 0
                with lock:
                    done += min(one.done for one in played)
                    longest = max(one.longest for one in played)
                    print(
                        f"{done} programs in {time.monotonic() - start:.0f} s; {where}: {changes} changes noticed, the "
                        f"longest start took {1e3 * longest:.0f} ms",
                        flush=True,
                    )
                    if wrong := [text for one in played for text in one.wrong]:
                        failed.set()
                        print(f"on {where}:", *wrong, sep="\n  ", flush=True)
                        return

    turns = -(-arguments.count // (BATCH * BATCHES))
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for one in [pool.submit(run, turn) for turn in range(turns)]:
            one.result()
    if failed.is_set():
        sys.exit(1)


def main() -> None:
    """Runs one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["adapt", "random", "programs"])
    parser.add_argument("--network", default="ring:8")
    parser.add_argument("--rate", default="100Mbit")
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--factor", type=float, default=4.0)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--pause", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tell", default="all", choices=["all", "graph", "nothing"])
    parser.add_argument("--count", type=int, default=2000, help="how many programs")
    parser.add_argument("--adaptation", help="for programs: RINGROAD_BUDGET's on all networks, such as 200ms, or 0")
    parser.add_argument("--limit", type=float, default=60.0, help="the most seconds of a call in a program")
    parser.add_argument("--jobs", type=int, default=2, help="how many testbeds run programs at the same time")
    arguments = parser.parse_args()
    {"adapt": adapt, "random": randomly, "programs": programs}[arguments.what](arguments)


if __name__ == "__main__":
    main()
