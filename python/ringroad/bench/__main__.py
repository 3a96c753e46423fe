"""The command line of the benchmark, with the flags of nccl-tests."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any, TextIO

from ringroad._text import parse_bytes
from ringroad.bench import report

BUDGET = 120.0
"""Seconds of measuring for all sizes and numbers of ranks together, unless -n says how many calls."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if find_spec("torch") is None:
        raise SystemExit("ringroad.bench: the benchmark calls ringroad and its peers through torch; install torch")
    sizes = _sizes(options.minbytes, options.maxbytes, options.stepfactor)
    seconds = options.budget / (len(sizes) * len(options.ranks))
    if options.json:
        options.json.write(json.dumps(report.machine()) + "\n")
    table: list[dict[str, dict[str, Any]]] = []
    for ranks in options.ranks:
        plan = {
            "sizes": sizes,
            "peers": options.peers,
            "calls": options.iters,
            "warmup": options.warmup_iters,
            "seconds": seconds,
            "check": bool(options.check),
            "numpy_calls": 2000 if ranks == 2 else 0,
        }
        table += _print(_run(ranks, plan), options.peers, options.json)
    print(report.verdict(table))
    return 1 if any(row["wrong"] for rows in table for row in rows.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ringroad.bench", description=__doc__)
    parser.add_argument("collective", nargs="?", choices=["allreduce"], default="allreduce")
    parser.add_argument("-b", "--minbytes", type=parse_bytes, default=8, help="smallest size [8]")
    parser.add_argument("-e", "--maxbytes", type=parse_bytes, default=64 << 20, help="largest size [64M]")
    parser.add_argument("-f", "--stepfactor", type=int, default=4, help="from size to size [4]")
    parser.add_argument("-n", "--iters", type=int, help="timed calls per size [as time allows]")
    parser.add_argument("-w", "--warmup_iters", type=int, default=10, help="calls that are not counted [10]")
    parser.add_argument("-c", "--check", type=int, default=1, help="0: do not verify the results [1]")
    parser.add_argument("--ranks", type=_numbers, default=[2, 4], help="comma-separated [2,4]")
    parser.add_argument("--peers", type=_names, default=["gloo"], help="other torch backends, comma-separated [gloo]")
    parser.add_argument("--budget", type=float, default=BUDGET, help=f"seconds of measuring in all [{BUDGET:g}]")
    parser.add_argument("--json", type=argparse.FileType("w"), metavar="FILE", help="also write JSON lines")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return [part for part in text.split(",") if part and part != "ringroad"]


def _sizes(smallest: int, largest: int, factor: int) -> list[int]:
    """Multiples of a float32 from smallest to largest, both included."""
    if factor < 2 or smallest > largest:
        raise SystemExit("ringroad.bench: -f must be at least 2, and -b at most -e")
    sizes, size = [], max(4, smallest // 4 * 4)
    while size < largest:
        sizes.append(size)
        size *= factor
    return [*sizes, max(4, largest // 4 * 4)]


def _run(ranks: int, plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Starts the ranks on this machine; what rank 0 prints."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = os.environ | {
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "ringroad.bench.worker", json.dumps(plan)]
    processes = [
        subprocess.Popen(
            command,
            env=environ | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE if rank == 0 else None,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        assert processes[0].stdout is not None
        for line in processes[0].stdout:
            yield json.loads(line)
        failed = [rank for rank, process in enumerate(processes) if process.wait() != 0]
        if failed:
            raise SystemExit(f"ringroad.bench: rank(s) {failed} of {ranks} failed")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _print(rows: Iterator[dict[str, Any]], peers: list[str], record: TextIO | None) -> list[dict[str, dict[str, Any]]]:
    """Prints the rows as they come, one line per size; rows by size and peer."""
    table: list[dict[str, dict[str, Any]]] = []
    current: dict[str, dict[str, Any]] = {}
    for row in rows:
        if record:
            record.write(json.dumps(row) + "\n")
            record.flush()
        if row["kind"] == "transport":
            print(report.header(row["ranks"], peers, row["transport"]), flush=True)
        elif row["kind"] == "numpy":
            print(report.numpy_line(row), flush=True)
        else:
            current[row["peer"]] = row
            if len(current) == len(peers) + 1:
                print(report.line(current), flush=True)
                table.append(current)
                current = {}
    return table


if __name__ == "__main__":
    sys.exit(main())
