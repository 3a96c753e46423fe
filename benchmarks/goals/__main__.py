"""`python benchmarks/goals`: the measurements of `make bench SET=peers` and its like, with a verdict."""

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parents[1]))  # a folder that is run is not on the path of its own package

from ringroad._native import Topology
from ringroad._support.text import parse_bytes, print_wrapped
from ringroad.cli._options import bandwidth_option, time_option
from ringroad.cli.bench import run
from ringroad.lab._prediction import prediction
from ringroad.measure.bench.collectives import COLLECTIVES
from ringroad.measure.bench.options import BenchOptions, names, numbers
from ringroad.testbed.namespaces import reenter

from goals import record, verdict
from goals.runner import runner


def main(
    sizes: Annotated[str, typer.Option(help="Sizes, with commas between them: 8,1K,4M.")],
    ranks: Annotated[str, typer.Option(help="Numbers of ranks, with commas between them.")] = "2,4",
    buffers: Annotated[str, typer.Option(help="The kind of buffers: numpy, torch, or both.")] = "numpy",
    peers: Annotated[str, typer.Option(help="Peers, as `ringroad bench` knows them.")] = "",
    reference: Annotated[bool, typer.Option("--reference", help="The plain program takes part, too.")] = False,
    cache: Annotated[
        str | None, typer.Option(help="Only rounds in which the CPUs share a cache (shared), or share none (separate).")
    ] = None,
    place: Annotated[str | None, typer.Option(help="in_place, out_of_place: these calls only.")] = None,
    algorithms: Annotated[str, typer.Option(help="Algorithms to compare the choice with: names, all, different.")] = "",
    tune: Annotated[float, time_option(help="First measure for so long, and choose by the result.")] = 0.0,
    launches: Annotated[int, typer.Option(min=1, help="Start all ranks this many times.")] = 1,
    budget: Annotated[float, time_option(help="About how long the whole run may take.")] = 120.0,
    testbed: Annotated[str, typer.Option(help="Run on an emulation of this network; needs --rate.")] = "",
    rate: Annotated[float, bandwidth_option(help="Of its cables in each direction, such as 100Mbit.")] = 0.0,
    json: Annotated[Path | None, typer.Option(help="Also write the record to this file, as JSON lines.")] = None,
) -> None:
    """Measure allreduce of float32 beside other libraries, and compare its times with goals."""
    if cache not in (None, "shared", "separate"):
        raise typer.BadParameter(f"--cache {cache}: expected shared or separate")
    if testbed:
        reenter()
    network = Topology(testbed) if testbed else None
    options = BenchOptions(
        collective=COLLECTIVES["allreduce"],
        sizes=[parse_bytes(size) for size in names(sizes)],
        ranks=numbers("--ranks", ranks) if network is None else [network.ranks],
        testbed=network,
        rate=rate,
        buffers=names(buffers),
        peers=names(peers),
        dtype="float32",
        op="sum",
        root=0,
        calls=None,
        warmup=10,
        check=True,
        budget=budget,
        hogs=0,
        timeout=120.0,
        algorithms=names(algorithms),
        tune=tune,
        launches=launches,
        place=place,
    )
    rows = run(runner(options, prediction, cache=cache, plain=reference), json, [record.machine()])
    print_wrapped(verdict.text(rows), "#   ")
    if any(row["wrong"] for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
