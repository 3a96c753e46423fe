"""`ringroad explain`: the choice of algorithm by size, and the reasons."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ringroad._costs import COLUMNS, NUMBERS, Overview
from ringroad._native import CostModel, Profile, Topology
from ringroad._options import COLLECTIVE, Bandwidth, HopLatency, Json, On, StepLatency, file_option
from ringroad._text import bytes_text, parse_bytes, print_json, print_table, print_wrapped

_DEFAULT_SIZES = ["8", "1KiB", "32KiB", "1MiB", "64MiB"]
_SHOWN_CANDIDATES = 5


def explain(
    collective: Annotated[str, typer.Argument(help="The collective, such as allreduce.", **COLLECTIVE)],
    topology: On,
    sizes: Annotated[
        list[str] | None, typer.Option("--bytes", metavar="BYTES", help="Size of the vector; may be repeated.")
    ] = None,
    step_latency: StepLatency = None,
    hop_latency: HopLatency = None,
    bandwidth: Bandwidth = None,
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use the costs that `ringroad tune` measured.")
    ] = None,
    schedules: Annotated[
        list[Path] | None,
        typer.Option("--schedule", metavar="FILE", help="A schedule of your own that competes; may be repeated."),
    ] = None,
    csv: Annotated[
        Path | None, file_option(help="Also write the choice among algorithms in the format of RINGROAD_TUNER_FILE.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all candidates, not just the best.")] = False,
    as_json: Json = False,
) -> None:
    """Compare all algorithms for a collective: the choice by size, the reasons, and what would change the choice."""
    for file in [*(schedules or []), *([profile] if profile else [])]:
        file.stat()  # the same error for both, if it is missing
    network = Topology(topology)
    measured = None if profile is None else Profile.read(str(profile))
    stated = (step_latency, hop_latency, bandwidth)
    model = _model(measured, *stated)
    lengths = [parse_bytes(size) for size in sizes or _DEFAULT_SIZES]
    given = schedules or []
    # Use the measured choice only for what was measured, on that network, and if no option states a cost.
    if measured and _is_on(measured, network) and stated == (None, None, None) and not given:
        found, rules = measured.compare(collective, lengths), measured.to_csv
    else:
        found = model.compare(collective, network, lengths, schedules=given)
        rules = partial(model.to_csv, collective, network)
    if csv is not None:
        csv.write_text(rules())
    if as_json:
        print_json(found)
    else:
        _print(found, everything)


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
    print_wrapped("link load: the load of the busiest link, summed over the steps, in vectors")
    print_wrapped("consistent: whether all ranks end with the same bits; if not, it is not chosen for floats\n")
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


def _model(
    profile: Profile | None, step_latency: float | None, hop_latency: float | None, bandwidth: float | None
) -> CostModel:
    """The model of the profile, or the default one; stated options replace its coefficients."""
    if profile is None:
        return CostModel(step_latency=step_latency, hop_latency=hop_latency, bandwidth=bandwidth)
    measured = profile.model
    return CostModel(
        step_latency=measured.step_latency if step_latency is None else step_latency,
        message_latency=measured.message_latency,
        incast_latency=measured.incast_latency,
        hop_latency=measured.hop_latency if hop_latency is None else hop_latency,
        bandwidth=measured.bandwidth if bandwidth is None else bandwidth,
        reduce_cost=measured.reduce_cost,
        overlapped=measured.overlapped,
        cores=measured.cores,
        over_links=measured.over_links,
    )
