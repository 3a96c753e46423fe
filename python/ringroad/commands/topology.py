"""`ringroad topology`: what a network looks like, and its file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad._graphs import describe, save
from ringroad._native import Topology
from ringroad._text import print_fields, print_json, print_table

_NAMED = [
    "octahedron",
    "k55-minus-matching",
    "heawood",
    "heawood-distance-3",
    "pg23-incidence",
    "ag24-incidence",
    "w2-incidence",
    "tutte-8-cage",
    "gq33-incidence",
    "tutte-12-cage",
    "gh33-incidence",
]
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
    ("circulant:16:3,4", "16 ranks, with cables to those 3 and 4 further up and down"),
    ("directed-circulant:8:1,3", "8 ranks, with links to those 1 and 3 further up"),
    ("complete:5", "a link to every other rank"),
    ("complete-bipartite:4", "two sides of 4 ranks, all joined across; 3x5 for sides of 3 and 5"),
    ("hamming:2:3", "2 dimensions of 3: wired as hyperx:3x3, with a port for every link and no grid"),
    ("kautz:4:1", "4 links a rank; line graph, once, of the complete graph of 5"),
    ("generalized-kautz:4:1024", "4 links a rank, for any number of ranks: x to -4x - 1, ... -4x - 4"),
    ("de-bruijn:2:4", "2^4 ranks: x to 2x and 2x + 1; none to itself"),
    ("uniring:4:5", "5 ranks in one direction, by 4 parallel links"),
    ("biring:2:5", "5 ranks, 2 links out of each: half up, half down"),
    ("cayley:z8*z2^3:5.1,3.0", "a group (z8, z8*z2^3, d13, s4, z3xz3) and generators: (x,c)(y,e) = (x + 3^c y, c + e)"),
    ("odd-graph:4", "sets of 3 of 7 things, joined if they have none in common"),
    ("doubled-odd-graph:4", "sets of 3 and of 4 of 7 things, joined if one is part of the other"),
    ("petersen", "10 ranks, 3 links; others are " + ", ".join(_NAMED)),
    ("net.graphml", "any graph: .json, .graphml, .gml, .csv, .edges, .edgelist, .txt; networkx reads it"),
]
_OPERATORS = [
    ("line(petersen)", "a rank for every link, which leads on to those out of its end"),
    ("line-graph(petersen)", "a rank for every cable, joined to those with an end in common"),
    ("degree(ring:5, 2)", "2 copies of every rank, each linked to all copies of its neighbours"),
    ("power(complete:3, 2)", "the product of 2 times the same"),
    ("product(ring:4, complete:3)", "the Cartesian product of two and more"),
    ("transpose(kautz:2:2)", "links turned round"),
    ("bidirectional(kautz:2:2)", "links, and links turned round"),
    ("without(torus:4x4, 0-1, 5>6)", "without the cable from 0 to 1, and the link from 5 to 6"),
    ("bottleneck(torus:4x4, 2)", "ranks that send and receive no more than 2 of their links carry"),
]
_ROUTINGS = [
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
        print_json(_report(network))
        return None
    print_fields(network.spec, describe(network))
    return None


def _list(as_json: bool) -> None:
    if as_json:
        listed = {"topologies": dict(FAMILIES), "operators": dict(_OPERATORS), "routings": dict(_ROUTINGS)}
        print_json(listed)
        return
    print_table(["topology", "what it is"], [list(row) for row in FAMILIES])
    print("\nand what is made of these, in any order\n")
    print_table(["operator", "what it makes"], [list(row) for row in _OPERATORS])
    print("\nwith a routing, as in torus:4x4,routing=single-path\n")
    print_table(["routing", "which paths bytes take"], [list(row) for row in _ROUTINGS])


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
