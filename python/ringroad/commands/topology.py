"""`ringroad topology`: describes a network, and writes it to a file."""

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
    ("mesh:4x4", "a torus without the wrap-around cables"),
    ("twisted-torus:8x4", "a torus of 2a x a; going around the short dimension shifts by half of the long one"),
    ("hyperx:4x4", "a link to every rank that differs in one coordinate"),
    ("hammingmesh:2x2:4x4", "4x4 boards of 2x2 ranks; in each row and column a fat tree joins the boards' ends"),
    ("hypercube:4", "4 dimensions, 16 ranks"),
    ("twisted-hypercube:3", "a hypercube with two cables exchanged; the diameter is one less"),
    ("switch:16", "one switch that never blocks"),
    ("fattree:4x8", "4 switches of 8 ranks; append :2 for half the bandwidth up, :1x2 for each level"),
    ("hosts:2x4", "2 hosts of 4 ranks, which share memory and a cable"),
    ("circulant:16:3,4", "16 ranks, each with cables to the ranks 3 and 4 further up and down"),
    ("directed-circulant:8:1,3", "8 ranks, each with links to the ranks 1 and 3 further up"),
    ("complete:5", "a link to every other rank"),
    ("complete-bipartite:4", "two sides of 4 ranks, with all cables across; 3x5 for sides of 3 and 5"),
    ("hamming:2:3", "2 dimensions of 3: wired as hyperx:3x3, with a port for every link and no grid"),
    ("kautz:4:1", "4 links out of each rank; the line graph, once, of the complete graph of 5"),
    ("generalized-kautz:4:1024", "4 links out of each rank, for any number of ranks: x to -4x - 1, ... -4x - 4"),
    ("de-bruijn:2:4", "2^4 ranks: links from x to 2x and 2x + 1, without loops"),
    ("uniring:4:5", "5 ranks in one direction, by 4 parallel links"),
    ("biring:2:5", "5 ranks, 2 links out of each: half up, half down"),
    ("cayley:z8*z2^3:5.1,3.0", "a group (z8, z8*z2^3, d13, s4, z3xz3) and generators: (x,c)(y,e) = (x + 3^c y, c + e)"),
    ("odd-graph:4", "the sets of 3 of 7 things, joined if they are disjoint"),
    ("doubled-odd-graph:4", "the sets of 3 and of 4 of 7 things, joined if one contains the other"),
    ("petersen", "10 ranks with 3 links each; other named graphs: " + ", ".join(_NAMED)),
    ("net.graphml", "any graph in a file: .json, .graphml, .gml, .csv, .edges, .edgelist, .txt (with networkx)"),
]
_OPERATORS = [
    ("line(petersen)", "a rank for every link, with links to the links that start at its end"),
    ("line-graph(petersen)", "a rank for every cable, joined to the cables that share an end"),
    ("degree(ring:5, 2)", "2 copies of every rank, each linked to all copies of its neighbours"),
    ("power(complete:3, 2)", "the Cartesian product of 2 copies"),
    ("product(ring:4, complete:3)", "the Cartesian product of two or more"),
    ("transpose(kautz:2:2)", "every link reversed"),
    ("bidirectional(kautz:2:2)", "every link, and its reverse"),
    ("without(torus:4x4, 0-1, 5>6)", "without the cable from 0 to 1, and the link from 5 to 6"),
    ("bottleneck(torus:4x4, 2)", "ranks that send and receive at most as much as 2 of their links carry"),
]
_ROUTINGS = [
    ("minimal", "spread over all shortest paths; the default"),
    ("dimension-ordered", "one dimension after the other; on grids only"),
    ("single-path", "one shortest path, over the first links"),
]


def topology(
    spec: Annotated[str | None, typer.Argument(metavar="[SPEC]", help="A spec or a file; unset: list them.")] = None,
    routing: Annotated[str | None, typer.Option(help="minimal, dimension-ordered or single-path.")] = None,
    bandwidth: Annotated[float | None, typer.Option(help="Bytes per second of every link.")] = None,
    latency: Annotated[float | None, typer.Option(help="Seconds that every link takes.")] = None,
    processing: Annotated[
        float | None, typer.Option(help="Seconds that every node takes to forward a message.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write the network as .json or .graphml, with its links."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe a network, or list the kinds of networks."""
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
    print("\nOperators make networks of these, in any order.\n")
    print_table(["operator", "what it makes"], [list(row) for row in _OPERATORS])
    print("\nAppend a routing, as in torus:4x4,routing=single-path.\n")
    print_table(["routing", "the paths of messages"], [list(row) for row in _ROUTINGS])


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
