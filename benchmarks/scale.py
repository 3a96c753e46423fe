"""Many ranks: how long they take to start, what memory each takes, and how fast their calls are.

    python benchmarks/scale.py --parts processes,start,choice,hosts --json record.jsonl
    python benchmarks/scale.py --draw record.jsonl picture.png    # measures nothing, needs matplotlib

- processes: real ranks on this host, beside Open MPI where it is found: start, memory and collectives
- start: ranks as threads that meet at the store of rank 0: requests, bytes and memory of each
- choice: how long the choice of an algorithm takes
- hosts: emulated hosts with several ranks each: start, and an allreduce beside the cost model's prediction

Times are those of processes that share the cores of one machine: compare within a run.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import ringroad
from goals.record import machine
from ringroad import testbed
from ringroad._support.pictures import pyplot
from ringroad._support.processes import Processes
from ringroad._support.text import about_bytes, bytes_text, print_table, seconds_text
from ringroad.measure import facts
from ringroad.measure.bench.launch import BenchError, mpi_command, mpirun

ROOT = Path(__file__).parent.parent
RANK = Path(__file__).with_name("scale_rank.py")
Row = dict[str, Any]


def available() -> int:
    """Bytes of memory that programs can still get."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


# ------------------------------------------------------------------------------------------------------- processes


def job(library: str, ranks: int, options: argparse.Namespace) -> Row:
    """What rank 0 of this many processes says, or why it says nothing."""
    environ = os.environ | {"OMP_NUM_THREADS": "1", "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    with socket.create_server(("127.0.0.1", 0)) as door:
        environ["MASTER_PORT"] = str(door.getsockname()[1])
    lines = [[sys.executable, str(RANK), library]] * ranks
    if library == "mpi4py":
        for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            del environ[name]
        environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        lines = [[*mpi_command("ob1", ranks), sys.executable, str(RANK), library]]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors, Processes() as processes:
        environ["SCALE_START"] = str(time.time())
        for rank, line in enumerate(lines):
            processes.start(line, environ | {"RANK": str(rank)}, stdout=out, stderr=errors)
        deadline = time.monotonic() + options.limit
        while any(process.poll() is None for process in processes.all) and time.monotonic() < deadline:
            time.sleep(0.05)
        processes.stop(grace=5.0 if library == "mpi4py" else 0.0)
        for file in (out, errors):
            file.seek(0)
        said, why = out.read(), errors.read().strip().splitlines()
    row = {"kind": "processes", "library": library, "ranks": ranks}
    return row | (json.loads(said) if said else {"failed": why[-1] if why else f"no end within {options.limit} s"})


def processes(options: argparse.Namespace) -> Iterator[Row]:
    libraries = ["ringroad", "mpi4py"]
    try:
        mpirun()
    except BenchError as error:
        print(error)
        libraries = ["ringroad"]
    for ranks in options.ranks:
        found = {library: job(library, ranks, options) for library in libraries}
        yield from found.values()
        show_processes(ranks, found)


def show_processes(ranks: int, found: dict[str, Row]) -> None:
    failed = {library: row["failed"] for library, row in found.items() if "failed" in row}
    for library, why in failed.items():
        print(f"{ranks} ranks, {library}: {why}")
    fine = {library: row for library, row in found.items() if library not in failed}
    if not fine:
        return
    lines: list[list[str]] = []

    def line(name: str, size: str, cells: list[Any], text: Any) -> None:
        ratio = f"{cells[1] / cells[0]:.2f}" if len(cells) > 1 else ""
        lines.append([name, size, *map(text, cells), ratio])

    rows = list(fine.values())
    line("all begun", "", [row["begun"] for row in rows], seconds_text)
    line("started", "", [row["met"] for row in rows], seconds_text)
    for key, when in (("memory", "at first"), ("memory_after", "at last")):
        for name, of in (("median", statistics.median), ("greatest", max)):
            line(f"{name} memory", when, [int(of(row[key])) for row in rows], about_bytes)
    for name, sizes in rows[0]["calls"].items():
        for size in sizes:
            line(name, bytes_text(int(size)), [row["calls"][name][size] for row in rows], seconds_text)
    print_table([f"{ranks} ranks", "size", *fine, "ratio"], lines, right=[*fine, "ratio"])


# ------------------------------------------------------------------------------------------------------ many ranks


def start(options: argparse.Namespace) -> Iterator[Row]:
    build = ["cargo", "build", "--quiet", "--release", "-p", "ringroad-runtime", "--example", "start"]
    subprocess.run(build, cwd=ROOT, check=True)
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    most, lines = 0.0, []
    for ranks in options.many:
        # Each rank knows all: four times as many take sixteen times the memory.
        needed = most * ranks * ranks
        if needed > 0.8 * available():
            print(f"{ranks} ranks: left out, they take {bytes_text(int(needed))} of memory")
            continue
        command = [folder / "release/examples/start", str(ranks)]
        row: Row = {"kind": "start"} | json.loads(subprocess.check_output(command, timeout=options.limit))
        most = max(row["kept"], row["most"]) / ranks
        yield row
        sizes = [about_bytes(int(row[key])) for key in ("bytes", "kept", "most", "rank_0_kept", "rank_0_most")]
        lines.append([str(ranks), seconds_text(row["seconds"]), f"{row['requests']:.1f}", *sizes])
    heads = ["ranks", "time", "requests", "bytes", "kept", "at most", "kept by 0", "at most by 0"]
    print_table(heads, lines, right=heads)


def choice(options: argparse.Namespace) -> Iterator[Row]:
    lines = []
    for spec in options.networks:
        for collective in ("allreduce", "allgather", "alltoall"):
            begun = time.perf_counter()
            try:
                algorithm = ringroad.CostModel().explain(collective, spec, "1MiB").algorithm
            except ringroad.RingroadError as error:
                algorithm = str(error)
            seconds = time.perf_counter() - begun
            yield {
                "kind": "choice",
                "network": spec,
                "collective": collective,
                "algorithm": algorithm,
                "seconds": seconds,
            }
            lines.append([spec, collective, algorithm, seconds_text(seconds)])
    print_table(["network", "collective", "choice", "time"], lines, right=["time"])


# ----------------------------------------------------------------------------------------------------------- hosts


def hosts(options: argparse.Namespace) -> Iterator[Row]:
    count, each = map(int, options.hosts.split("x"))
    begun = time.perf_counter()
    elements = (1 << 20) // 4

    def measure(comm: ringroad.Communicator) -> tuple[float, float, str]:
        vector, times = np.ones(elements, np.float32), []
        for _ in range(4):
            comm.barrier()
            start = time.perf_counter()
            comm.allreduce(vector, vector)
            times.append(time.perf_counter() - start)
        explained = comm.explain("allreduce", 4 * elements)
        chosen = next(row for row in explained.candidates if row.algorithm == explained.algorithm)
        return min(times[1:]), chosen.seconds, explained.algorithm

    with testbed.emulate(f"hosts:{count}x{each}", rate=options.rate, timeout=options.limit) as bed:
        started = time.perf_counter() - begun
        found = bed.run(measure)
    seconds, predicted, algorithm = max(found)
    row: Row = {"kind": "hosts", "hosts": count, "each": each, "rate": options.rate, "started": started}
    yield row | {"algorithm": algorithm, "seconds": seconds, "predicted": predicted}
    print(
        f"{count} hosts of {each} ranks, {options.rate}: started after {started:.1f} s; {algorithm} of 1 MiB takes "
        f"{seconds_text(seconds)}, predicted {seconds_text(predicted)}",
        flush=True,
    )


# --------------------------------------------------------------------------------------------------------- picture

NAMES = {"ringroad": "ringroad", "mpi4py": "Open MPI"}


def draw(record: Path, picture: Path) -> None:
    """Draws what a record says of processes: start, memory and calls over the number of ranks."""
    rows = [row for row in map(json.loads, record.read_text().splitlines()) if row["kind"] == "processes"]
    panels = {
        "start, s": lambda row: row["met"],
        "median memory of a rank, MiB": lambda row: statistics.median(row["memory_after"]) / 2**20,
        "allreduce of 64 KiB, ms": lambda row: 1e3 * row["calls"]["allreduce"][str(64 << 10)],
        "allreduce of 1 MiB, ms": lambda row: 1e3 * row["calls"]["allreduce"][str(1 << 20)],
        "alltoall of 64 KiB, ms": lambda row: 1e3 * row["calls"]["alltoall"][str(64 << 10)],
        "allgather of 8 B, ms": lambda row: 1e3 * row["calls"]["allgather"]["8"],
    }
    figure, axes = pyplot().subplots(2, 3, figsize=(12, 6), layout="constrained")
    for axis, (title, value) in zip(axes.flat, panels.items(), strict=True):
        for library, name in NAMES.items():
            here = [row for row in rows if row["library"] == library and "failed" not in row]
            axis.plot([row["ranks"] for row in here], [*map(value, here)], marker="o", markersize=3, label=name)
        axis.set(title=title, xscale="log", xlabel="ranks", ylim=(0, None))
        axis.set_xticks(sorted({row["ranks"] for row in rows}), sorted({row["ranks"] for row in rows}))
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes.flat[0].legend(frameon=False)
    figure.savefig(picture, dpi=80)


PARTS = {"processes": processes, "start": start, "choice": choice, "hosts": hosts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(word) for word in text.split(",")]  # noqa: E731
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--parts", type=words, default=[*PARTS], help="of: " + ", ".join(PARTS))
    parser.add_argument("--ranks", type=numbers, default=[8, 16, 32, 64, 128], help="processes")
    parser.add_argument("--many", type=numbers, default=[256, 1024, 4096], help="ranks that meet")
    parser.add_argument(
        "--networks", type=lambda text: text.split(";"), default=["hosts:128x8", "torus:32x32", "hosts:512x8"]
    )
    parser.add_argument("--hosts", default="64x4", help="emulated hosts, and ranks on each")
    parser.add_argument("--rate", default="20Mbit", help="of a cable between emulated hosts")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds that each job may take")
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--draw", type=Path, nargs=2, metavar=("RECORD", "PICTURE"), help="draw a record, and end")
    options = parser.parse_args()
    if options.draw:
        draw(*options.draw)
        return
    if unknown := {*options.parts} - {*PARTS}:
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    busy = facts.busy_cores()
    print(f"other processes keep {busy:.1f} cores busy")
    rows: list[Row] = [machine() | {"busy_cores": busy}]
    for part in options.parts:
        rows.extend(PARTS[part](options))
    if options.json:
        options.json.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
