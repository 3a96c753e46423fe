#!/usr/bin/env python3
"""Makes mixed calls among 4 ranks for a long time, verifies every result, and checks that nothing grows.

    tools/soak.py --minutes 30 [--calls N] [--json FILE]

The calls: all collectives, types and operations, of 1 byte to a few MiB, in place and not, blocking and asynchronous;
messages; groups that are made and dropped; and threads with a communicator each. The last line has the number of calls,
the number of wrong results, and the growth of a rank's memory and descriptors after a warm-up. The exit status is 1 if
a result was wrong or something grew.
"""

import argparse
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

# Set before the imports: threads of these libraries would not survive the fork.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
os.environ["RINGROAD_CACHE"] = "none"

import numpy as np
import ringroad
from faults.processes import Board, Log, Ranks, open_things, read_log
from ringroad import Communicator
from ringroad._oracle import Case, Part, draw

RANKS = 4
THREADS = 2
SHORT, LARGEST = 8 << 10, 4 << 20  # bytes
WARM_UP = 0.25  # of the time
MOST_GROWTH = 8 << 20  # bytes of a rank's memory
MOST_MORE = 4  # descriptors and threads; a few come and go
PATIENCE = 60.0


class Soak:
    """One rank's part. All ranks draw the same calls, and rank 0 decides when to stop."""

    def __init__(self, options: argparse.Namespace, directory: Path, rank: int, log: Log) -> None:
        self.options, self.directory, self.rank, self.log = options, directory, rank, log
        self.calls = self.errors = 0
        self.lock = threading.Lock()
        self.began = time.monotonic()
        self.sampled = 0.0
        random = Random(options.seed)
        self.short = [Part(draw(random, RANKS, SHORT), RANKS, rank) for _ in range(400)]
        self.long = [Part(draw(random, RANKS, LARGEST), RANKS, rank) for _ in range(40)]

    def run(self) -> None:
        comm = self.start("world")
        others = [self.start(f"thread-{number}") for number in range(THREADS)]
        flag, number = np.zeros(1, np.int64), 0
        while not flag[0]:
            random = Random(f"{self.options.seed}/{number}")
            self.plain(comm, random, 3000)
            self.later(comm, random, 200)
            if number % 2 == 0:
                self.in_threads(comm, others, number)
            if number % 4 == 0:
                self.group(comm, number)
            gc.collect()
            self.sample(number)
            flag[0] = self.rank == 0 and self.enough()
            comm.broadcast(flag)
            number += 1
        for one in [*others, comm]:
            one.close()
        self.log("end", calls=self.calls, errors=self.errors, seconds=time.monotonic() - self.began)

    def enough(self) -> bool:
        made = self.options.calls is not None and self.calls >= self.options.calls
        return made or time.monotonic() - self.began > 60 * self.options.minutes

    def start(self, place: str) -> Communicator:
        store = ringroad.FileStore(str(self.directory / place))
        return ringroad.init(store, rank=self.rank, size=RANKS, timeout=PATIENCE)

    def count(self, wrong: Iterator[str | None]) -> None:
        """Counts calls and logs wrong results."""
        calls = errors = 0
        for text in wrong:
            calls += 1
            if text is not None:
                errors += 1
                self.log("wrong", text=text)
        with self.lock:
            self.calls += calls
            self.errors += errors

    def plain(self, comm: Communicator, random: Random, calls: int) -> None:
        """Blocking calls, one after the other; one in a hundred is long."""
        chosen = [
            random.choice(self.short) if random.random() < 0.99 else random.choice(self.long) for _ in range(calls)
        ]
        self.count(one.start(comm).finish() for one in chosen)

    def later(self, comm: Communicator, random: Random, calls: int) -> None:
        """Asynchronous calls, four at a time."""
        for _ in range(calls // 4):
            running = [random.choice(self.short).start(comm, async_op=True) for _ in range(4)]
            self.count(one.finish() for one in running)

    def in_threads(self, comm: Communicator, others: list[Communicator], number: int) -> None:
        failures: list[BaseException] = []

        def work(at: int) -> None:
            try:
                self.plain(others[at], Random(f"{self.options.seed}/{number}/{at}"), 200)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(at,)) for at in range(THREADS)]
        for thread in threads:
            thread.start()
        self.plain(comm, Random(f"{self.options.seed}/{number}/main"), 200)
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def group(self, comm: Communicator, number: int) -> None:
        """Two groups of half of the ranks, by their handles; or one group of all ranks, over a new store."""
        if number % 8 == 0:
            half = [h for at, h in enumerate(comm.handles) if at // 2 == self.rank // 2 and h is not None]
            with ringroad.regroup(half, uuid=number, timeout=PATIENCE) as pair:
                one = Part(Case("allreduce", 100), 2, pair.rank)
                self.count(one.start(pair).finish() for _ in range(20))
        else:
            with self.start(f"group-{number}") as again:
                self.plain(again, Random(number), 50)
            if self.rank == 0:
                shutil.rmtree(self.directory / f"group-{number - 8}", ignore_errors=True)

    def sample(self, number: int) -> None:
        """Logs memory and descriptors of this process, at most once a second."""
        now = time.monotonic()
        if now - self.sampled < 1:
            return
        self.sampled = now
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
        sizes = {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines}
        private = sizes["Private_Dirty"] + sizes["Private_Clean"]
        fields = {"pss": sizes["Pss"], "private": private, "open": sum(open_things().values())}
        self.log("sample", seconds=now - self.began, calls=self.calls, **fields)


def growth(samples: list[dict[str, Any]], what: str) -> float:
    """The median of the last third of the samples less that of the first third."""
    values = [sample[what] for sample in samples]
    third = len(values) // 3 or 1
    return statistics.median(values[-third:]) - statistics.median(values[:third]) if values else 0.0


def trend(samples: list[dict[str, Any]]) -> str:
    """Memory of one rank over the whole time, in ten numbers."""
    step = max(1, len(samples) // 10)
    return " ".join(f"{sample['pss'] / 2**20:.1f}" for sample in samples[::step])


def summary(directory: Path, statuses: list[int], hanging: list[int]) -> dict[str, Any]:
    logs = [read_log(directory / f"rank-{rank}.jsonl") for rank in range(RANKS)]
    ends = [record for log in logs for record in log if record["event"] == "end"]
    samples = [[record for record in log if record["event"] == "sample"] for log in logs]
    until = [log[-1]["seconds"] * WARM_UP if log else 0.0 for log in samples]
    warm = [[s for s in log if s["seconds"] >= from_] for log, from_ in zip(samples, until, strict=True)]
    return {
        "calls": max((end["calls"] for end in ends), default=max((s[-1]["calls"] for s in samples if s), default=0)),
        "seconds": max((end["seconds"] for end in ends), default=0.0),
        "errors": sum(record["event"] == "wrong" for log in logs for record in log),
        "failed": [rank for rank, status in enumerate(statuses) if status != 0],
        "hanging": hanging,
        "pss growth": max(growth(log, "pss") for log in warm),
        "private growth": max(growth(log, "private") for log in warm),
        "open growth": max(growth(log, "open") for log in warm),
        "trends": [trend(log) for log in samples],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--calls", type=int, help="end after this many calls, if that is sooner")
    parser.add_argument("--seed", default="0", help="seed of the calls, any text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="ringroad-soak-"))
    board = Board(60 * options.minutes + 3 * PATIENCE)
    everybody = list(range(RANKS))
    gc.freeze()
    ranks = Ranks(RANKS, directory, lambda rank, log: Soak(options, directory, rank, log).run())
    try:
        board.wait(lambda: ranks.reap(everybody))
    finally:
        hanging = ranks.end()
    found = summary(directory, [ranks.status[rank] for rank in everybody], hanging)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    for rank, text in enumerate(found["trends"]):
        print(f"rank {rank}: MiB over time: {text}")
    grew = max(found["pss growth"], found["private growth"])
    bad = found["errors"] or found["failed"] or grew > MOST_GROWTH or found["open growth"] > MOST_MORE
    if bad:
        print(f"details in {directory}")
    else:
        shutil.rmtree(directory)
    print(
        f"{found['calls']:,} calls in {found['seconds']:.0f} s, {found['errors']} wrong, ranks that failed: "
        f"{found['failed'] or 'none'}; memory grew by {grew / 2**20:.2f} MiB (at most {MOST_GROWTH >> 20}), "
        f"descriptors and threads by {found['open growth']:.0f} (at most {MOST_MORE})"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
