"""`ringroad cost`: the time of an algorithm by the cost model."""

from dataclasses import asdict
from typing import Annotated

import typer

from ringroad._native import CostModel, Schedule, Topology
from ringroad._support.text import bytes_text, parse_bytes, print_fields, print_json
from ringroad.cli._options import Bandwidth, Collective, HopLatency, Json, Name, On, ReduceCost, Root, Size, StepLatency


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
        return print_json(head | asdict(result))
    print_fields(f"{name}: {collective} of {bytes_text(length)} on {network.spec}", result.rows())
    return None
