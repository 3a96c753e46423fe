"""The command line of the benchmark, with the flags of nccl-tests."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from ringroad._native import Topology
from ringroad._oracle import DTYPES, OPS
from ringroad._support.processes import MOST as MOST_PROCESSES
from ringroad._support.text import parse_bytes, print_wrapped, progress, width
from ringroad.cli._options import LAST_RANK, bandwidth_option, file_option, time_option, whole_option
from ringroad.lab._prediction import prediction
from ringroad.measure.bench import choice, table
from ringroad.measure.bench.collectives import COLLECTIVES, collective
from ringroad.measure.bench.options import BenchOptions, names, numbers, sizes
from ringroad.measure.bench.peers import OURS
from ringroad.measure.bench.rows import Row
from ringroad.measure.bench.runner import Runner
from ringroad.testbed.namespaces import reenter

_BUDGET = 120.0
_COLLECTIVES = f"{', '.join(COLLECTIVES)}."


def bench(
    name: Annotated[str, typer.Argument(metavar="[COLLECTIVE]", help=_COLLECTIVES)] = "allreduce",
    minbytes: Annotated[str, typer.Option("-b", "--minbytes", help="Smallest size: 8, 1K (1 KiB), 1KB.")] = "8",
    maxbytes: Annotated[str, typer.Option("-e", "--maxbytes", help="Largest size: 64M (64 MiB), 64MB.")] = "64M",
    factor: Annotated[int, whole_option("-f", "--stepfactor", help="Factor between sizes.", least=2)] = 4,
    size_list: Annotated[str, typer.Option("--sizes", help="Sizes, such as 8,1K,4M; replaces -b, -e and -f.")] = "",
    calls: Annotated[
        int | None,
        whole_option("-n", "--iters", help="Timed calls per size and launch; default: as --budget allows.", least=1),
    ] = None,
    warmup: Annotated[int, whole_option("-w", "--warmup_iters", help="Untimed warm-up calls.")] = 10,
    check: Annotated[int, whole_option("-c", "--check", help="Verify results (0: no).")] = 1,
    dtype: Annotated[str, typer.Option("-d", "--datatype", help=f"{', '.join(DTYPES)}.")] = "float32",
    op: Annotated[str, typer.Option("-o", "--op", help=f"{', '.join(OPS)}.")] = "sum",
    root: Annotated[int, whole_option("-r", "--root", help="Root rank of rooted collectives.", most=LAST_RANK)] = 0,
    ranks: Annotated[str, typer.Option(help="Comma-separated numbers of ranks.")] = "2,4",
    testbed: Annotated[
        str,
        typer.Option(metavar="TOPOLOGY", help="Run on all ranks of this emulated network; needs --rate."),
    ] = "",
    rate: Annotated[
        float, bandwidth_option(help="Cable rate per direction, such as 100Mbit.", show_default=False)
    ] = 0.0,
    buffers: Annotated[str, typer.Option(help="Buffer types: numpy, torch, or both.")] = "numpy",
    peers: Annotated[
        str,
        typer.Option(
            help="Libraries to compare with: mpi4py (also mpi4py-ob1, mpi4py-ucx), gloo or another torch backend."
        ),
    ] = "",
    place: Annotated[str | None, typer.Option(help="Only in_place or out_of_place calls.")] = None,
    algorithms: Annotated[
        str,
        typer.Option(help="Algorithms to compare with the choice: names, all, or different (one per cost)."),
    ] = "",
    wires: Annotated[
        str,
        typer.Option("--wire", help="Wire formats to compare with exact elements: int8,bf16; not verified."),
    ] = "",
    tune: Annotated[
        float,
        time_option(help="First tune for this many seconds, as `ringroad tune` does."),
    ] = 0.0,
    launches: Annotated[int, whole_option(help="Number of launches, because times vary between them.", least=1)] = 1,
    budget: Annotated[float, time_option(help="Approximate duration of the run, without -n.")] = _BUDGET,
    hogs: Annotated[int, whole_option(help="Busy background processes.", most=MOST_PROCESSES)] = 0,
    timeout: Annotated[float, time_option(help="Timeout of a call in seconds.", least=1.0)] = 120.0,
    json_file: Annotated[Path | None, file_option("--json", help="Also write JSON lines to FILE.")] = None,
) -> None:
    """Benchmark a collective against other libraries."""
    if testbed:
        reenter()
    network = Topology(testbed) if testbed else None
    options = BenchOptions(
        collective=collective(name),
        sizes=[parse_bytes(size) for size in names(size_list)] or sizes(minbytes, maxbytes, factor),
        ranks=numbers("--ranks", ranks) if network is None else [network.ranks],
        testbed=network,
        rate=rate,
        buffers=names(buffers),
        peers=[peer for peer in names(peers) if peer != OURS],
        dtype=dtype,
        op={"prod": "product"}.get(op, op),
        root=root,
        calls=calls,
        warmup=warmup,
        check=bool(check),
        budget=budget,
        hogs=hogs,
        timeout=timeout,
        algorithms=names(algorithms),
        wires=names(wires),
        tune=tune,
        launches=launches,
        place=place,
    )
    rows = run(Runner(options, prediction), json_file)
    print_wrapped(choice.text(rows), "#   ")
    if any(row["wrong"] for row in rows):
        raise typer.Exit(1)


def run(runner: Runner, record: Path | None, first: Sequence[Row] = ()) -> list[Row]:
    """Runs the benchmark, prints the rows, writes them into the record after `first`, and returns the measurements."""
    measured: list[Row] = []
    with ExitStack() as stack:
        file = None if record is None else stack.enter_context(record.open("w"))

        def write(row: Row) -> None:
            if file is not None:
                print(json.dumps(row), file=file, flush=True)

        for row in first:
            write(row)
        print_wrapped(table.LEGEND, "# ")
        printer = _Printer()
        for row in runner.run():
            write(row)
            printer.take(row)
            if row["kind"] == "measurement":
                measured.append(row)
        printer.flush()
    return measured


class _Printer:
    """Prints rows, grouped by size."""

    def __init__(self) -> None:
        self.size: list[Row] = []
        self.block: object = None
        self.columns = table.Columns()
        self.refused: set[str] = set()

    def take(self, row: Row) -> None:
        progress("")
        if row["kind"] != "measurement" or (self.size and not _beside(row, self.size[0])):
            self.flush()
        match row["kind"]:
            case "team":
                print_wrapped(table.title(row), "# ")
                self.block = None
            case "refusal":  # once, not for every size
                if row["text"] not in self.refused:
                    print_wrapped(f"# {row['text']}", "#   ")
                self.refused.add(row["text"])
            case "measurement":
                self.size.append(row)

    def flush(self) -> None:
        if not self.size:
            return
        first = self.size[0]
        block = (first["collective"], first["buffers"], first["ranks"])
        if block != self.block:
            self.columns = table.chosen(self.size, width())
            print_wrapped(table.header(*block, self.columns), "# ")
            self.block = block
        print("\n".join(table.lines(self.size, self.columns)), flush=True)
        self.size = []


def _beside(row: Row, other: Row) -> bool:
    return all(row[key] == other[key] for key in ("size", "buffers", "ranks", "pml"))
