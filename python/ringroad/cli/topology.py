"""`ringroad topology`: describes a network, and writes it to a file."""

from pathlib import Path
from typing import Annotated

import typer

from ringroad._graphs import describe, save
from ringroad._native import Topology
from ringroad._support.text import print_fields, print_json, print_table, print_wrapped
from ringroad.cli._options import Json, bandwidth_option, file_option, time_option


def topology(
    spec: Annotated[str | None, typer.Argument(metavar="[SPEC]", help="Spec or file; default: list specs.")] = None,
    routing: Annotated[str | None, typer.Option(help="minimal, dimension-ordered or single-path.")] = None,
    bandwidth: Annotated[float | None, bandwidth_option(help="Link bandwidth: 100Gbit/s, 12.5GB/s.")] = None,
    latency: Annotated[float | None, time_option(help="Link latency: 500ns.")] = None,
    processing: Annotated[float | None, time_option(help="Time for a node to forward a message.")] = None,
    file: Annotated[
        Path | None,
        file_option("--save", help="Write the network and its links as .json or .graphml."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe a network, or list network families."""
    if spec is None:
        return _list(as_json)
    network = Topology(spec, bandwidth=bandwidth, latency=latency, processing=processing, routing=routing)
    if file is not None:
        save(network, file)
    if as_json:
        print_json(network._facts())
        return None
    print_fields(network.spec, describe(network._facts()))
    return None


def _list(as_json: bool) -> None:
    families, operators, routings = Topology._kinds()
    if as_json:
        print_json({"topologies": dict(families), "operators": dict(operators), "routings": dict(routings)})
        return
    print_table(["topology", "what it is"], [list(row) for row in families])
    print("\nOperators make networks of these, in any order.\n")
    print_table(["operator", "what it makes"], [list(row) for row in operators])
    print()
    print_wrapped(
        "Append rates, as in ring:9,bandwidth=200Mbit/s,latency=20us,0-1=50Mbit/s, positions of ranks, as in "
        "torus:2x2@2,0,1,3, or a routing, as in torus:4x4,routing=single-path."
    )
    print()
    print_table(["routing", "the paths of messages"], [list(row) for row in routings])
