"""`ringroad explain`: the choice of algorithm by size, and the reasons."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad import _explain
from ringroad._costs import COLUMNS, NUMBERS, Candidate, Explanation
from ringroad._native import CostModel, Profile, Topology
from ringroad._support.text import bytes_text, parse_bytes, print_json, print_table, print_wrapped
from ringroad.cli._options import COLLECTIVE, Bandwidth, HopLatency, Json, On, StepLatency, file_option

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
    candidates = dict(zip(lengths, model.compare(collective, network, lengths, schedules=given), strict=True))
    # Use the measured choice only for what was measured, on that network, and if no option states a cost.
    here = measured if measured and _is_on(measured, network) and stated == (None, None, None) and not given else None
    reasons = {
        length: here.choice(collective, length) if here else model.choice(collective, network, length, schedules=given)
        for length in lengths
    }
    switches = {
        data: here.switch_points(collective, consistent)
        if here
        else model.switch_points(collective, network, consistent, schedules=given)
        for data, consistent in (("floats", True), ("integers", False))
    }
    if csv is not None:
        csv.write_text(here.to_csv() if here else model.to_csv(collective, network))
    if as_json:
        report = {
            "collective": collective,
            "topology": network.spec,
            "sizes": [
                {"bytes": b, "candidates": [_candidate(c) for c in row], "choice": _reason(reasons[b])}
                for b, row in candidates.items()
            ],
            "switch_points": {
                data: [{"from_bytes": start, "algorithm": name} for start, name in points]
                for data, points in switches.items()
            },
        }
        print_json(report)
        return
    for length, row in candidates.items():
        _, *reason = _explain.text(reasons[length]).splitlines()
        print_wrapped(f"{collective} of {bytes_text(length)} on {network.spec}: {reasons[length].algorithm}")
        shown = row if everything else row[:_SHOWN_CANDIDATES]
        _print_candidates(shown)
        if len(shown) < len(row):
            print(f"and {len(row) - len(shown)} slower ones (--all)")
        for line in reason:
            print_wrapped(line, "    ")
        print()
    print_wrapped("link load: the load of the busiest link, summed over the steps, in vectors")
    print_wrapped("consistent: whether all ranks end with the same bits; if not, it is not chosen for floats\n")
    if switches["floats"] == switches["integers"]:
        switches = {"all data": switches["floats"]}
    for data, points in switches.items():
        print(f"chosen for {data}")
        print_table(["from", "algorithm"], [[bytes_text(start), name] for start, name in points], right=["from"])


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


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "algorithm": candidate.algorithm,
        "ratio": candidate.ratio,
        "consistent": candidate.consistent,
        "seconds": candidate.seconds,
        "steps": candidate.steps,
        "hops": candidate.hops,
        "link_load": candidate.link_load,
    }


def _reason(found: Explanation) -> dict[str, Any]:
    """The explanation as JSON, for floats."""
    first, last = found.range
    return {
        "algorithm": found.algorithm,
        "origin": found.origin,
        "from_bytes": first,
        "to_bytes": last,
        "runner_up": found.runner_up,
        "margin": found.margin,
        "terms": found.terms,
        "runner_up_terms": found.runner_up_terms,
        "runner_up_bytes": found.runner_up_bytes,
        "factors": found.factors,
    }


def _print_candidates(candidates: Sequence[Candidate]) -> None:
    print_table(COLUMNS, [candidate.cells() for candidate in candidates], right=NUMBERS)
