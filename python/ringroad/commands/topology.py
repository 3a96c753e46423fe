"""`ringroad topology`: what a network looks like, and its file."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad._graphs import describe, save
from ringroad._native import Topology
from ringroad._text import print_table

FAMILIES = [
    ("ring:8", "a ring"),
    ("torus:4x4x2", "rings in every dimension"),
    ("mesh:4x4", "a torus without the cables around"),
    ("twisted-torus:8x4", "a torus of 2a x a whose short way around ends half the long one further"),
    ("hyperx:4x4", "a link to every rank that differs in one coordinate"),
    ("hammingmesh:2x2:4x4", "boards of 2x2, 4x4 of them; a fat tree joins the boards' ends in each row and column"),
    ("hypercube:4", "4 dimensions, 16 ranks"),
    ("twisted-hypercube:3", "a hypercube with two cables exchanged: its diameter is one less"),
    ("switch:16", "one switch that forwards everything at once"),
    ("fattree:4x8", "4 switches of 8 ranks; :2 behind it for half the bandwidth up, :1x2 for each level"),
    ("hosts:2x4", "2 hosts of 4 ranks, which share memory and a cable"),
    ("net.graphml", "any graph: .json, .graphml, .gml, .csv, .edges, .edgelist, .txt; networkx reads it"),
]
ROUTINGS = [
    ("minimal", "spread over all shortest paths; unless told otherwise"),
    ("dimension-ordered", "one dimension after the other; on grids only"),
    ("single-path", "one shortest path, by the first links"),
]


def topology(
    spec: Annotated[str | None, typer.Argument(metavar="[SPEC]", help="A spec or a file; unset: list them.")] = None,
    routing: Annotated[str | None, typer.Option(help="minimal, dimension-ordered or single-path.")] = None,
    bandwidth: Annotated[float | None, typer.Option(help="Bytes per second of every link.")] = None,
    latency: Annotated[float | None, typer.Option(help="Seconds that every link takes.")] = None,
    processing: Annotated[float | None, typer.Option(help="Seconds that every node takes in addition.")] = None,
    file: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write it as .json or .graphml, with its links.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe a network, or list the kinds of them."""
    if spec is None:
        return _list(as_json)
    network = Topology(spec, bandwidth=bandwidth, latency=latency, processing=processing, routing=routing)
    if file is not None:
        save(network, file)
    if as_json:
        print(json.dumps(_report(network), indent=2))
        return None
    print(network.spec)
    rows = describe(network)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")
    return None


def _list(as_json: bool) -> None:
    if as_json:
        print(json.dumps({"topologies": dict(FAMILIES), "routings": dict(ROUTINGS)}, indent=2))
        return
    print_table(["topology", "what it is"], [list(row) for row in FAMILIES])
    print("\nwith a routing, as in torus:4x4,routing=single-path\n")
    print_table(["routing", "which paths bytes take"], [list(row) for row in ROUTINGS])


def _report(network: Topology) -> dict[str, Any]:
    return {
        "topology": network.spec,
        "ranks": network.ranks,
        "nodes": network.nodes,
        "links": len(network.links),
        "dimensions": list(network.dimensions),
        "degree": network.degree,
        "diameter": network.diameter,
        "routing": network.routing,
        "bandwidth": sorted({link[2] for link in network.links}),
        "latency": sorted({link[3] for link in network.links}),
    }
