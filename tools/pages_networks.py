"""The page of the documentation on networks: every kind, with a picture."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import ringroad
from pages_text import figure, literal, table
from ringroad._native import Topology

SMALLER = {
    "torus:4x4x2": "torus:4x4",
    "fattree:4x8": "fattree:2x4",
    "switch:16": "switch:8",
    "twisted-torus:8x4": "twisted-torus:4x2",
    "generalized-kautz:4:1024": "generalized-kautz:3:10",
    "hammingmesh:2x2:4x4": "hammingmesh:2x2:2x2",
    "odd-graph:4": "odd-graph:3",
    "doubled-odd-graph:4": "doubled-odd-graph:3",
    "cayley:z8*z2^3:5.1,3.0": "cayley:z8:1,3",
}
"""The networks that are drawn in place of those by which `ringroad topology` names their kind."""


def pages() -> Iterator[tuple[str, str]]:
    """The text of the page by its path."""
    families, operators, routings = Topology._kinds()
    text = """\
# Networks

A network has a name, its *spec*. Use it wherever a topology is asked for: in `RINGROAD_TOPOLOGY`, in `topology=`, and
with `--topology` of all commands. `ringroad topology SPEC` describes a network. [Your network](../network.md) says how
to tell a job which one it runs on.

Circles are ranks, squares are switches, and arrows are links. On a grid, a link that goes around is drawn as a stub on
both sides.

## Families
"""
    for spec, meaning in families:
        text += _section(spec, meaning)
    text += "\n## Operators\n\nOperators make networks of other networks, in any order.\n"
    for spec, meaning in operators:
        text += _section(spec, meaning)
    rows = [[f"`{name}`", literal(meaning)] for name, meaning in routings]
    text += f"""
## Routings

Messages take shortest paths. Append a routing to choose which ones, as in `torus:4x4,routing=single-path`. [`ringroad
routes`](../alltoall.md#routes) makes tables of other paths.

{table(["routing", "the paths of messages"], rows)}"""
    yield "networks.md", text


def pictures() -> dict[str, Callable[[Path], None]]:
    """How to draw every picture of the page, by its path."""
    families, operators, _ = Topology._kinds()
    specs = [SMALLER.get(spec, spec) for spec, _ in (*families, *operators) if not _is_file(spec)]
    return {_picture(spec): _drawing(spec) for spec in specs}


def _section(spec: str, meaning: str) -> str:
    title = re.split(r"[:(]", spec)[0] if not _is_file(spec) else "A file"
    text = f"\n### {title}\n\n`{spec}`: {literal(meaning)}.\n\n"
    if _is_file(spec):
        return text
    drawn = Topology(SMALLER.get(spec, spec))
    switches = drawn.nodes - drawn.ranks
    ranks = f"{drawn.ranks} ranks" + (f", {switches} switch{'es' if switches > 1 else ''}" if switches else "")
    caption = f"`{drawn.spec}`: {ranks}, {len(drawn.links)} links, diameter {drawn.diameter}"
    return text + figure(_picture(SMALLER.get(spec, spec)), caption, "small")


def _is_file(spec: str) -> bool:
    return spec.startswith("net.")


def _picture(spec: str) -> str:
    return f"pictures/network-{re.sub(r'[^a-z0-9]+', '-', spec).strip('-')}.svg"


def _drawing(spec: str) -> Callable[[Path], None]:
    def draw(file: Path) -> None:
        from matplotlib import pyplot
        from ringroad.lab.viz import layout, links

        network = ringroad.Topology(spec)
        drawing = layout.draw(network)
        shown, axes = pyplot.subplots(figsize=links.panel_size(drawing), layout="constrained")
        links.paint(axes, drawing, network.ranks, dict.fromkeys(range(len(drawing.lines)), 1.0), 1.5)
        shown.savefig(file, transparent=True)

    return draw
