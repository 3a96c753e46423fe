"""`ringroad cost`: the time of an algorithm by the cost model."""

from typing import Annotated, Any

import typer

from ringroad._costs import Cost
from ringroad._native import CostModel, Schedule, Topology
from ringroad._options import Bandwidth, Collective, HopLatency, Json, Name, On, ReduceCost, Root, Size, StepLatency
from ringroad._text import bytes_text, parse_bytes, print_fields, print_json, seconds_text


def cost(
    name: Name,
    topology: On,
    size: Size,
    collective: Collective = "allreduce",
    root: Root = 0,
    step_latency: StepLatency = None,
    hop_latency: HopLatency = None,
    bandwidth: Bandwidth = None,
    reduce_cost: ReduceCost = None,
    overlapped: Annotated[bool, typer.Option("--overlapped", help="Reduce during transfers.")] = False,
    as_json: Json = False,
) -> None:
    """Predict how long an algorithm takes."""
    network, length = Topology(topology), parse_bytes(size)
    model = CostModel(
        step_latency=step_latency,
        hop_latency=hop_latency,
        bandwidth=bandwidth,
        reduce_cost=reduce_cost,
        overlapped=overlapped,
    )
    result = model.cost(Schedule.build(name, network, collective, root), network, length)
    if as_json:
        head = {"algorithm": name, "collective": collective, "topology": network.spec, "bytes": length}
        return print_json(head | _numbers(result) | {"max_link_load": result.max_link_load} | _deficiencies(result))
    print_fields(
        f"{name}: {collective} of {bytes_text(length)} on {network.spec}",
        [
            ("time", seconds_text(result.seconds)),
            ("steps", str(result.steps)),
            ("hops", str(result.hops)),
            ("link load", f"{result.link_load:.4g} vectors"),
            ("latency deficiency, Lambda", f"{result.latency_deficiency:.4f}"),
            ("bandwidth deficiency, Psi", f"{result.bandwidth_deficiency:.4f}"),
            ("congestion deficiency, Xi", f"{result.congestion_deficiency:.4f}"),
            ("worst link, Psi Xi", f"{result.worst_link:.4f}"),
        ],
    )
    return None


def _numbers(result: Cost) -> dict[str, Any]:
    return {
        "seconds": result.seconds,
        "steps": result.steps,
        "hops": result.hops,
        "link_load": result.link_load,
    }


def _deficiencies(result: Cost) -> dict[str, float]:
    return {
        "latency_deficiency": result.latency_deficiency,
        "bandwidth_deficiency": result.bandwidth_deficiency,
        "congestion_deficiency": result.congestion_deficiency,
        "worst_link": result.worst_link,
    }
