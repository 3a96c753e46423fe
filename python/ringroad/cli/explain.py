"""`ringroad explain`: what algorithms cost, which is chosen at which size, and why."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad._costs import COLUMNS, FORMAT_COLUMNS, NUMBERS, Overview
from ringroad._native import CostModel, Profile, Schedule, Topology
from ringroad._support.text import bytes_text, parse_bytes, print_fields, print_json, print_table, print_wrapped
from ringroad.cli._algorithms import print_list
from ringroad.cli._options import (
    ALGORITHM,
    COLLECTIVE,
    SPEC,
    Bandwidth,
    HopLatency,
    Json,
    ReduceCost,
    Root,
    StepLatency,
    file_option,
)

_DEFAULT_SIZES = ["8", "1KiB", "32KiB", "1MiB", "64MiB"]
_DEFAULT_NETWORK = "ring:8"
"""On which algorithms are listed."""
_SHOWN_CANDIDATES = 5


def explain(
    collective: Annotated[
        str | None, typer.Argument(help="Collective, such as allreduce; default: list algorithms.", **COLLECTIVE)
    ] = None,
    topology: Annotated[str | None, typer.Option("--topology", **SPEC)] = None,
    sizes: Annotated[
        list[str] | None, typer.Option("--bytes", metavar="BYTES", help="Vector size; may be repeated.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", help="Explain only this algorithm's cost.", **ALGORITHM)
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List algorithms with their requirements, costs and sources.")
    ] = False,
    root: Root = 0,
    step_latency: StepLatency = None,
    hop_latency: HopLatency = None,
    bandwidth: Bandwidth = None,
    reduce_cost: ReduceCost = None,
    overlapped: Annotated[bool, typer.Option("--overlapped", help="Reduce during transfers.")] = False,
    profile: Annotated[Path | None, typer.Option(metavar="FILE", help="Use costs measured by `ringroad tune`.")] = None,
    schedules: Annotated[
        list[Path] | None,
        typer.Option("--schedule", metavar="FILE", help="Also compare your own schedule; may be repeated."),
    ] = None,
    csv: Annotated[Path | None, file_option(help="Also write the choice in RINGROAD_TUNER_FILE format.")] = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            "--max-error",
            min=0,
            help="Also compare wire formats with errors up to this fraction of the ranks' largest magnitudes.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all candidates, not just the best.")] = False,
    as_json: Json = False,
) -> None:
    """Explain the choice of algorithm at each size.

    Compares all algorithms for a collective on a network, and shows what would change the choice. With --algorithm,
    breaks down one algorithm's cost. Without a collective, or with --list, lists algorithms.
    """
    if collective is None or listed:
        return print_list(Topology(topology or _DEFAULT_NETWORK), collective, as_json)
    if topology is None:
        raise ValueError("explain: name the network with --topology, such as --topology torus:4x4")
    for file in [*(schedules or []), *([profile] if profile else [])]:
        file.stat()  # the same error for both, if it is missing
    network = Topology(topology)
    measured = None if profile is None else Profile.read(str(profile))
    terms = {
        "step_latency": step_latency,
        "hop_latency": hop_latency,
        "bandwidth": bandwidth,
        "reduce_cost": reduce_cost,
        "overlapped": overlapped or None,
    }
    stated: dict[str, Any] = {name: value for name, value in terms.items() if value is not None}
    fitted: dict[str, Any] = {} if measured is None else measured.model.__getnewargs_ex__()[1]
    model = CostModel(**fitted | stated)
    if algorithm is not None:
        if schedules or csv or everything or max_error is not None:
            what = "--schedule, --csv, --max-error and --all"
            raise ValueError(f"explain: {what} compare algorithms; leave --algorithm out")
        return _explain_one(Schedule.build(algorithm, network, collective, root), network, model, sizes, as_json)
    if root:
        raise ValueError("explain: --root goes with --algorithm; a comparison holds for every root")
    lengths = [parse_bytes(size) for size in sizes or _DEFAULT_SIZES]
    given = schedules or []
    # Use the measured choice only for what was measured, on that network, and if no option states a cost.
    if measured and _is_on(measured, network) and not stated and not given:
        found, rules = measured.compare(collective, lengths), measured.to_csv
    else:
        found = model.compare(collective, network, lengths, schedules=given)
        rules = partial(model.to_csv, collective, network)
    if csv is not None:
        csv.write_text(rules())
    formats = {}
    if max_error is not None:
        formats = {size: model.formats(collective, network, size, max_error=max_error) for size in lengths}
    if as_json:
        return print_json(vars(found) | {"formats": formats} if formats else found)
    _print(found, everything)
    for size, rows in formats.items():
        print(f"\nformats of float32 for {bytes_text(size)}, with errors of at most {max_error:g}")
        print_table(FORMAT_COLUMNS, [row.cells() for row in rows], right=FORMAT_COLUMNS[2:])
    return None


def _print(found: Overview, everything: bool) -> None:
    for size in found.sizes:
        _, *reason = str(size).splitlines()
        print_wrapped(f"{size.collective} of {bytes_text(size.bytes)} on {size.topology}: {size.algorithm}")
        shown = size.candidates if everything else size.candidates[:_SHOWN_CANDIDATES]
        print_table(COLUMNS, [candidate.cells() for candidate in shown], right=NUMBERS)
        if len(shown) < len(size.candidates):
            print(f"and {len(size.candidates) - len(shown)} slower ones (--all)")
        for line in reason:
            print_wrapped(line, "    ")
        print()
    print_wrapped("link load: the load of the busiest link, summed over the steps, as a fraction of the message")
    print_wrapped("bit-identical: whether all ranks end with the same bits; if not, it is not chosen for floats\n")
    floats, integers = found.switch_points["floats"], found.switch_points["integers"]
    tables = {"all data": floats} if floats == integers else {"floats": floats, "integers": integers}
    for data, ranges in tables.items():
        print(f"chosen for {data}")
        rows = [[bytes_text(one.from_bytes), one.algorithm] for one in ranges]
        print_table(["from", "algorithm"], rows, right=["from"])


def _is_on(profile: Profile, network: Topology) -> bool:
    """Whether the profile was measured on this network; compares all links, not only the spec."""
    place = json.loads(profile.to_json())["place"]
    return bool(place["topology"] == json.loads(network.to_json()))


def _explain_one(
    schedule: Schedule, network: Topology, model: CostModel, sizes: Sequence[str] | None, as_json: bool
) -> None:
    """Prints the parts of one schedule's cost, for each size."""
    costs = {length: model.cost(schedule, network, length) for length in map(parse_bytes, sizes or _DEFAULT_SIZES)}
    name, collective = schedule.name, schedule.collective
    if as_json:
        found = [{"bytes": length} | asdict(cost) for length, cost in costs.items()]
        return print_json({"algorithm": name, "collective": collective, "topology": network.spec, "sizes": found})
    for number, (length, cost) in enumerate(costs.items()):
        if number:
            print()
        print_fields(f"{name}: {collective} of {bytes_text(length)} on {network.spec}", cost.rows())
    return None
