"""Graphs as topologies: networkx graphs, and files of them.

A graph's nodes are ranks unless their attribute `kind` is `switch`. Ranks are numbered by their attribute `rank`, else
by their names if all are whole numbers, else in the graph's order; switches follow. An edge of an undirected graph is a
cable, with a link in each direction; an edge of a directed graph is one link. Edges may have `bandwidth` (bytes per
second, or a text such as `100Mbit`), `capacity` (a factor of that bandwidth, default 1), `latency` (seconds, or a text
such as `20us`) and `extra_latency`. Nodes may have
`processing`, the seconds that they take to forward a message; these are added to the extra latency of the links that
end there. The graph may have `dimensions` (`4x4`), the grid on which algorithms for tori run.
"""

import codecs
import csv
import os
import re
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from ringroad._native import Topology, TopologyError, read_file
from ringroad._support.files import parse_json, read_text
from ringroad._support.text import bandwidth_text, parse_bandwidth, parse_seconds, seconds_text

_PLAIN = Topology("ring:2").links[0]
_DEFAULTS = {"bandwidth": _PLAIN[2], "capacity": 1.0, "latency": _PLAIN[3], "extra_latency": 0.0}
_READERS = {
    "bandwidth": parse_bandwidth,
    "latency": parse_seconds,
    "extra_latency": parse_seconds,
    "processing": parse_seconds,
}
_SHOWN = 16  # neighbours that `describe` lists
_TEXT_ENDINGS = (".edges", ".edgelist", ".txt")
_RATE = re.compile("bandwidth|capacity|rate|speed|throughput|weight", re.IGNORECASE)
"""What names of edges' attributes have that look like rates."""


def from_graph(graph: Any, *, name: str | None = None, dimensions: list[int] | None = None) -> Topology:
    """The topology of a networkx graph, directed or not, with parallel edges or without."""
    ranks, switches = _nodes(graph)
    _warn_of_unused(graph)
    number = {node: index for index, node in enumerate([*ranks, *switches])}
    processing = {node: _number(data, "processing", 0.0, f"node {node!r}") for node, data in graph.nodes(data=True)}
    links = []
    for source, target, data in graph.edges(data=True):
        where = f"edge {source!r} to {target!r}"
        bandwidth, capacity, latency, extra = (_number(data, key, _DEFAULTS[key], where) for key in _DEFAULTS)
        for start, end in [(source, target)] if graph.is_directed() else [(source, target), (target, source)]:
            links.append((number[start], number[end], bandwidth, capacity, latency, extra + processing[end]))
    name = _plain_name(name or graph.graph.get("name"))
    sizes = _sizes(graph.graph.get("dimensions")) if dimensions is None else dimensions
    return Topology._from_links(name, len(ranks), len(number), links, sizes)


def _warn_of_unused(graph: Any) -> None:
    names = sorted({str(key) for *_, data in graph.edges(data=True) for key in data} - set(_DEFAULTS))
    if unused := [name for name in names if _RATE.search(name)]:
        what = f"what edges have as {', '.join(unused)} is not used"
        warnings.warn(f"{what}: ringroad reads rates from bandwidth (bytes per second, or a text)", stacklevel=4)


def to_graph(topology: Topology) -> Any:
    """The topology as a networkx.MultiDiGraph, from which `from_graph` makes the same links."""
    graph = need_networkx().MultiDiGraph(name=topology.spec)
    if topology.dimensions and topology.positions is None:
        graph.graph["dimensions"] = "x".join(map(str, topology.dimensions))
    for node in range(topology.nodes):
        if node < topology.ranks:
            graph.add_node(node, kind="rank", rank=node)
        else:
            graph.add_node(node, kind="switch")
    for source, target, *properties in topology._links():
        graph.add_edge(source, target, **dict(zip(_DEFAULTS, properties, strict=True)))
    return graph


def read(path: str | os.PathLike[str]) -> Topology:
    """Reads a file: JSON (of `Topology.save`, or networkx's node-link form), GraphML, GML, CSV or an edge list.

    CSV has a header with `source`, `target` and the edges' attributes. The edges of CSV and edge lists are cables, or
    links of one direction if the file has a line `# directed`; all nodes are ranks. Several edges between two nodes are
    several cables in all formats. Raises TopologyError if the file cannot be parsed.
    """
    path = Path(path)
    try:
        made = _parse(path)
        if isinstance(made, Topology):
            return made
        return from_graph(made, name=path.stem)
    except (TopologyError, OSError):
        raise
    except Exception as error:  # whatever the parsers of these formats raise
        raise TopologyError(f"{path} cannot be read as a graph: {error}") from error


def save(topology: Topology, path: str | os.PathLike[str]) -> None:
    """Writes JSON or GraphML, by the ending of the name. Both keep the links' properties; JSON also keeps family and
    routing."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending == ".json":
        path.write_text(topology.to_json() + "\n")
    elif ending == ".graphml":
        need_networkx().write_graphml(to_graph(topology), path)
    else:
        raise ValueError(f"a topology is saved as .json or .graphml, not {str(path)!r}")


def describe(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of a topology that `ringroad topology` prints, as (name, value)."""
    positions, diameter, graph = facts["positions"], facts["diameter"], facts["graph"]
    return [
        ("ranks", str(facts["ranks"])),
        ("other nodes", str(facts["nodes"] - facts["ranks"])),
        ("links", str(facts["links"])),
        ("grid", "x".join(map(str, facts["dimensions"])) or "none: algorithms see a ring"),
        *([("positions of ranks", ", ".join(map(str, positions)))] if positions else []),
        ("links per rank", str(facts["degree"])),
        *([] if diameter is None else [("diameter", f"{diameter} hops")]),
        *(_seen(**graph) if graph else []),
        ("routing", facts["routing"]),
        ("bandwidth", _range(facts["bandwidth"], bandwidth_text)),
        ("latency", _range(facts["latency"], seconds_text)),
    ]


def _seen(
    neighbours: list[int], at_distance: list[int], moore_bound: int | None, is_cayley: bool
) -> list[tuple[str, str]]:
    bound = f"{moore_bound} hops at least with this number of links"
    return [
        ("rank 0 has links to", ", ".join(map(str, neighbours[:_SHOWN])) + (", ..." if neighbours[_SHOWN:] else "")),
        ("ranks by hops from 0", ", ".join(map(str, at_distance))),
        *([] if moore_bound is None else [("Moore bound", bound)]),
        ("alike", "all ranks, port by port: a Cayley graph" if is_cayley else "not by the order of links"),
    ]


def _range(values: list[float], text: Callable[[float], str]) -> str:
    return " to ".join(dict.fromkeys(text(value) for value in values[:1] + values[-1:])) or "no links"


def need_networkx() -> Any:
    """networkx itself. Raises TopologyError, with what to install, if it is missing."""
    try:
        import networkx  # type: ignore[import-untyped]
    except ImportError as error:
        raise TopologyError("graphs need networkx: pip install networkx") from error
    return networkx


def _nodes(graph: Any) -> tuple[list[Any], list[Any]]:
    """Ranks in their order, and switches."""
    kinds = {"rank": [], "switch": []}  # type: dict[str, list[Any]]
    for node, data in graph.nodes(data=True):
        kind = data.get("kind", "rank")
        if kind not in kinds:
            raise TopologyError(f"node {node!r} is of kind {kind!r}; expected rank or switch")
        kinds[kind].append(node)
    ranks = kinds["rank"]
    numbers = {node: graph.nodes[node]["rank"] for node in ranks if "rank" in graph.nodes[node]}
    if not numbers:
        whole = all(re.fullmatch(r"[0-9]+", str(node)) for node in ranks)
        return (sorted(ranks, key=lambda node: int(str(node))) if whole else ranks), kinds["switch"]
    if sorted(map(str, numbers.values())) != sorted(map(str, range(len(ranks)))):
        raise TopologyError(f"ranks must be numbered 0 to {len(ranks) - 1}, each once, or none of them")
    return sorted(ranks, key=lambda node: int(numbers[node])), kinds["switch"]


def _number(data: dict[str, Any], key: str, default: float, where: str) -> float:
    value = data.get(key)
    if value in (None, ""):
        return default
    try:
        return float(value)
    except (TypeError, ValueError):
        if not isinstance(value, str) or key not in _READERS:
            raise TopologyError(f"{where} has {key} {value!r}; expected a number") from None
    try:
        return _READERS[key](value)
    except ValueError as error:
        raise TopologyError(f"{where}: {error}") from None


def _sizes(dimensions: object) -> list[int]:
    if dimensions in (None, ""):
        return []
    text = dimensions if isinstance(dimensions, str) else "x".join(map(str, dimensions))  # type: ignore[call-overload]
    if not re.fullmatch(r"[0-9]+(x[0-9]+)*", text):
        raise TopologyError(f"the graph has dimensions {dimensions!r}; expected sizes such as 4x4")
    return [int(size) for size in text.split("x")]


def _plain_name(name: object) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(name or "")).strip("-") or "unnamed"


def _parse(path: Path) -> Any:
    """The graph in a file, or the topology."""
    ending = path.suffix.lower()
    if ending == ".json":
        return _from_json(read_text(path))
    if ending in (".graphml", ".gml"):
        data = read_file(path).removeprefix(codecs.BOM_UTF8)
        networkx = need_networkx()
        if ending == ".graphml":
            return networkx.read_graphml(BytesIO(data))
        # networkx refuses parallel edges without this, which many files lack.
        data = re.sub(rb"(?m)^(\s*graph\s*\[)", rb"\1 multigraph 1 ", data, count=1)
        return networkx.read_gml(BytesIO(data), label="id")
    if ending == ".csv" or ending in _TEXT_ENDINGS:
        lines = read_text(path).splitlines()
        networkx = need_networkx()
        directed = any(re.fullmatch(r"#\s*directed\s*", line) for line in lines)
        graph = networkx.MultiDiGraph() if directed else networkx.MultiGraph()
        return _csv(lines, graph) if ending == ".csv" else _edge_list(lines, graph)
    endings = ", ".join((".json", ".graphml", ".gml", ".csv", *_TEXT_ENDINGS))
    raise TopologyError(f"{path} is neither a topology nor a graph's file; known endings are {endings}")


def _from_json(text: str) -> Any:
    value = parse_json(text, "the topology")
    if isinstance(value, dict) and "spec" in value:
        return Topology.from_json(text)
    edges = next((key for key in ("edges", "links") if isinstance(value, dict) and key in value), None)
    if edges is None or "nodes" not in value:
        raise TopologyError('JSON of a topology has a "spec", or "nodes" and "links" as networkx writes them')
    return need_networkx().node_link_graph(value | {"multigraph": True}, edges=edges)


def _edge_list(lines: list[str], graph: Any) -> Any:
    """The ends of each edge, separated by spaces or by commas, and its attributes as a dict."""
    rows = [line.partition("#")[0].strip() for line in lines]
    commas = all("," in row.partition("{")[0] for row in rows if row)
    if commas:
        rows = [",".join(map(str.strip, row.split(","))) for row in rows]
    return need_networkx().parse_edgelist(rows, create_using=graph, delimiter="," if commas else None)


def _csv(lines: list[str], graph: Any) -> Any:
    rows = csv.DictReader(line for line in lines if line.strip() and not line.lstrip().startswith("#"))
    rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
    unknown = set(rows.fieldnames) - {"source", "target", *_DEFAULTS}
    if unknown or not {"source", "target"} <= set(rows.fieldnames):
        columns = ", ".join(rows.fieldnames) or "without names"
        raise TopologyError(f"CSV has columns {columns}; expected source, target and any of: {', '.join(_DEFAULTS)}")
    for row in rows:
        if None in row or None in row.values():
            raise TopologyError(f"line {rows.line_num} of CSV does not have as many columns as the header")
        cells = {key: value.strip() for key, value in row.items()}
        graph.add_edge(cells.pop("source"), cells.pop("target"), **cells)
    return graph
