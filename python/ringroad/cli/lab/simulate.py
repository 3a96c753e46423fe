"""`ringroad lab simulate`: a schedule on a model of the network."""

import math
from pathlib import Path
from typing import Annotated

import typer

from ringroad._native import CostModel, Topology
from ringroad._support.text import MOST, bytes_text, parse_bytes, print_fields, print_json, print_table, seconds_text
from ringroad.cli._options import (
    Bandwidth,
    HopLatency,
    Json,
    Performed,
    ReduceCost,
    Root,
    Size,
    StepLatency,
    file_option,
    picture_option,
    refuse_for_file,
    time_option,
    whole_option,
)
from ringroad.lab import formats
from ringroad.lab._simulation import Simulation
from ringroad.lab._simulation import simulate as run


def simulate(
    name: Annotated[str, typer.Argument(metavar="ALGORITHM", help="Algorithm (see `ringroad explain`), or a file.")],
    topology: Annotated[str, typer.Option("--topology", metavar="SPEC", help="Network (see `ringroad topology`).")],
    size: Size,
    collective: Performed = None,
    root: Root = 0,
    free_running: Annotated[bool, typer.Option("--free-running", help="Do not wait between steps.")] = False,
    store: Annotated[
        bool, typer.Option("--store-and-forward", help="Forward messages only after complete arrival.")
    ] = False,
    late: Annotated[list[str] | None, typer.Option(metavar="RANK:SECONDS", help="Start a rank late.")] = None,
    slow_rank: Annotated[
        list[str] | None,
        typer.Option(metavar="RANK:FACTOR", help="Slow a rank's start-ups and reductions by FACTOR."),
    ] = None,
    slow_link: Annotated[
        list[str] | None, typer.Option(metavar="FROM:TO:FRACTION", help="Reduce link bandwidth to FRACTION.")
    ] = None,
    fail_link: Annotated[
        list[str] | None, typer.Option(metavar="FROM:TO", help="Fail links; messages are routed around them.")
    ] = None,
    replan: Annotated[
        bool, typer.Option("--replan", help="Also simulate the best algorithm for the network without failed links.")
    ] = False,
    skew: Annotated[float, time_option(help="Start ranks at random within this time.")] = 0.0,
    seed: Annotated[int, whole_option(help="Seed for --skew.")] = 0,
    step_latency: StepLatency = None,
    message_latency: Annotated[float | None, time_option(help="Time for each further message of a rank.")] = None,
    incast_latency: Annotated[
        float | None, time_option(help="Time for each further rank that sends to the same port.")
    ] = None,
    hop_latency: HopLatency = None,
    bandwidth: Bandwidth = None,
    reduce_cost: ReduceCost = None,
    overlapped: Annotated[
        bool, typer.Option("--overlapped", help="In synchronous steps, reduce during transfers.")
    ] = False,
    segment: Annotated[str | None, typer.Option(metavar="BYTES", help="Maximum message size.")] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Show the end and busiest link of each step.")] = False,
    save_trace: Annotated[Path | None, file_option(help="Write the timeline as JSON.")] = None,
    save_chrome_trace: Annotated[
        Path | None, file_option(help="Write the timeline for ui.perfetto.dev or chrome://tracing.")
    ] = None,
    plot: Annotated[Path | None, picture_option(help="Draw each rank's timeline")] = None,
    plot_links: Annotated[Path | None, picture_option(help="Draw link loads per step")] = None,
    as_json: Json = False,
) -> None:
    """Simulate an algorithm on a network.

    Shows the timeline of every rank and link, which may be slow, late or failed.
    """
    if replan and not fail_link:
        raise ValueError("--replan needs links that have failed; write for example --fail-link 0:1 --replan")
    network = Topology(topology)
    if is_file := name.endswith((".json", ".xml")):
        refuse_for_file(name, collective, root)
    simulation = run(
        formats.read(name) if is_file else name,
        network,
        parse_bytes(size),
        collective=collective or "allreduce",
        root=root,
        model=CostModel(
            step_latency=step_latency,
            message_latency=message_latency,
            incast_latency=incast_latency,
            hop_latency=hop_latency,
            bandwidth=bandwidth,
            reduce_cost=reduce_cost,
            overlapped=overlapped,
        ),
        free_running=free_running,
        store_and_forward=store,
        late={int(rank): value for rank, value in _fields("--late", late, "3:1e-3", 1)},
        slow_ranks={int(rank): value for rank, value in _fields("--slow-rank", slow_rank, "3:2", 1)},
        slow_links={(int(a), int(b)): value for a, b, value in _fields("--slow-link", slow_link, "0:1:0.5", 2)},
        failed_links=[(int(a), int(b)) for a, b in _fields("--fail-link", fail_link, "0:1", 2)],
        replan=replan,
        skew=skew,
        seed=seed,
        segment=None if segment is None else parse_bytes(segment),
    )
    if save_trace is not None:
        simulation.save_trace(save_trace)
    if save_chrome_trace is not None:
        simulation.save_chrome_trace(save_chrome_trace)
    if plot is not None:
        simulation.plot("timeline").savefig(plot, dpi=120)
    if plot_links is not None:
        simulation.plot("links").savefig(plot_links, dpi=120)
    if as_json:
        print_json(simulation)
        return
    print_fields(simulation.title, simulation.rows())
    if steps:
        print()
        _print_steps(simulation)


def _fields(option: str, texts: list[str] | None, example: str, whole: int) -> list[list[float]]:
    """The numbers of an option's values, separated by colons; the first `whole` of them are numbers of ranks or
    nodes."""
    count = example.count(":") + 1
    values = []
    for text in texts or []:
        parts = text.split(":")
        try:
            if len(parts) != count:
                raise ValueError
            nodes, numbers = [int(part) for part in parts[:whole]], [float(part) for part in parts[whole:]]
        except ValueError:
            raise ValueError(f"{option} {text!r} is invalid; write for example {option} {example}") from None
        if not (min(nodes) >= 0 and max(nodes) <= MOST and all(0 <= number < math.inf for number in numbers)):
            raise ValueError(f"{option} {text!r} is invalid: nodes count from 0 on, and other numbers are not negative")
        values.append([*nodes, *numbers])
    return values


def _print_steps(simulation: Simulation) -> None:
    rows = []
    for step, (end, link) in enumerate(zip(simulation.step_ends, simulation.busiest_links, strict=True)):
        cells = [f"{link.source}→{link.target}", bytes_text(round(link.bytes))] if link else ["-", "-"]
        rows.append([str(step), seconds_text(end), *cells])
    print_table(["step", "done at", "busiest link", "carries"], rows, right=["step", "done at", "carries"])
