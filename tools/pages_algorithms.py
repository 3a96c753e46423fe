"""The pages of the documentation on algorithms: one for each, and the list of all with what wins where."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import ringroad
from pages_text import figure, literal, sentence, table, whole, with_links
from ringroad import _oracle as oracle
from ringroad._support.text import about_bytes, bytes_text, seconds_text, significant
from ringroad.cli._algorithms import on_network

COSTED = ["ring:8", "ring:9", "torus:4x4", "hosts:2x4"]
"""The networks for which costs are shown. For an algorithm that runs on none of them: those below."""
WRITTEN = ["ring:4", "ring:8", "torus:3x3", "hosts:2x2", "torus:4x4", "degree(complete:2, 2)"]
"""The networks for schedules: an algorithm's is shown on the first one on which it runs."""
DRAWN = ["ring:8", "hosts:2x4", "torus:4x4"]
"""The networks for pictures, likewise."""
DRAWN_ON = {
    **dict.fromkeys(["butterfly", "trivance", "trivance-hybrid", "trivance-latency", "nested", "gather-sum"], "ring:9"),
    **dict.fromkeys(["bucket", "hamiltonian-rings"], "torus:3x3"),
    **dict.fromkeys(["bfb", "trees", "spanning-trees"], "petersen"),
    **dict.fromkeys(["weighted-trees", "flow"], "without(torus:4x4, 0-1)"),
    "expanded": "degree(ring:4, 2)",
    "leaders": "switch:6",
}
"""The networks of other pictures: where an algorithm shows what it is made for."""
CHOSEN = [
    *("ring:8", "ring:9", "ring:16", "ring:64", "mesh:4x4", "torus:3x3", "torus:4x4", "torus:8x8", "torus:4x4x4"),
    *("twisted-torus:8x4", "hypercube:4", "hyperx:4x4", "hammingmesh:2x2:2x2", "switch:6", "switch:8", "switch:16"),
    *("fattree:4x8:2", "hosts:2x4", "hosts:2x8", "hosts:4x8", "petersen", "kautz:4:1", "generalized-kautz:4:32"),
    *("circulant:16:3,4", "without(torus:4x4, 0-1)", "bottleneck(torus:4x4, 2)"),
]
"""The networks for which the fastest algorithm is listed."""
SIZES = [8 << (2 * power) for power in range(13)]
"""The sizes at which an algorithm that is nowhere the fastest is compared with those that are: 8 B to 128 MiB."""
LEAST = 8
"""The least bytes that count: shorter vectors have less than one number."""
LINES = 16
"""The most lines of a written schedule."""
LENGTH = 1 << 20
"""The bytes of the vector in pictures and in the tables of costs."""


def pages() -> Iterator[tuple[str, str]]:
    """The text of every page by its path."""
    yield "algorithms.md", _index()
    for algorithm in ringroad.algorithms():
        yield f"algorithms/{algorithm.name}.md", _page(algorithm)


def pictures() -> dict[str, Callable[[Path], None]]:
    """How to draw every picture of these pages, by its path."""
    return {
        "pictures/fastest.svg": _draw_fastest,
        **{f"pictures/{one.name}.svg": _drawing(one) for one in ringroad.algorithms()},
    }


# ------------------------------------------------------------------------------------------------ the list of all


def _index() -> str:
    entries = "".join(
        f"- [{a.name}](algorithms/{a.name}.md) ({', '.join(a.collectives)}): {literal(a.summary)}\n"
        for a in ringroad.algorithms()
    )
    names = "\n".join(f"algorithms/{a.name}" for a in ringroad.algorithms())
    text = f"""\
# Algorithms

Each algorithm has a page with its picture, its costs, its source, and where it is the fastest. `ringroad explain
--topology SPEC` shows the costs for your network, and with a collective [the choice and its reasons](../choosing.md).

{entries}
## Which one wins where

The cost model computes which algorithm takes the least time, with its default numbers: links of 100 Gbit/s and 500 ns,
and 500 ns to start a step. `ringroad explain COLLECTIVE --topology SPEC` repeats it for any network, also with other
numbers, and [`ringroad tune`](../choosing.md#measure-ringroad-tune) measures instead of computing.

{figure("pictures/fastest.svg", "The fastest allreduce by network and size, and how much longer the next one takes.")}
"""
    listed: dict[str, list[str]] = {}
    for collective in oracle.COLLECTIVES:
        listed.setdefault(_winners(collective), []).append(collective)
    text += "".join(f"\n### {', '.join(names)}\n\n{winners}" for winners, names in listed.items())
    return f"{text}\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def _winners(collective: str) -> str:
    """A table of the fastest algorithms, with a row for all networks that have the same."""
    rows: dict[str, list[str]] = {}
    for spec, spans in _fastest(collective, True).items():
        linked = [f"[{span.name}](algorithms/{span.family}.md)" for span in spans]
        first, *others = zip(spans, linked, strict=True)
        text = "".join([first[1], *(f", {whole(f'from {_about(span.first)} on')} {link}" for span, link in others)])
        rows.setdefault(text, []).append(f"`{spec}`")
    return table(["network", "fastest"], [[", ".join(specs), text] for text, specs in rows.items()])


def _draw_fastest(file: Path) -> None:
    from ringroad.lab import viz

    found = viz.best_algorithms(CHOSEN, [64, 1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 26])
    # Families have shorter names than members; at their hyphens the names become lines that fit.
    short = [replace(best, algorithm=best.algorithm.partition(":")[0].replace("-", "-\n")) for best in found]
    viz.heatmap(short).savefig(file, transparent=True)


# ------------------------------------------------------------------------------------------------ one algorithm


def _page(algorithm: ringroad.Algorithm) -> str:
    text = f"# {algorithm.name}\n\n{sentence(algorithm.summary)}\n\n"
    if algorithm.parameter is not None:
        letter, meaning = algorithm.parameter
        text += f"This is a family. A member is `{algorithm.name}:{letter}`, where `{letter}` is {meaning}.\n\n"
    text += f"**Source:** {with_links(algorithm.source)}.\n\n"
    drawn = _drawn(algorithm)
    text += figure(
        f"../pictures/{algorithm.name}.svg",
        f"The bytes on every link of `{drawn.spec}`, step by step, in {_article(drawn.collective)} of "
        f"{bytes_text(LENGTH)} by `{drawn.member}`.",
    )
    text += f"\n## Where it is the fastest\n\n{_wins(algorithm)}\n## Costs\n\n{_costs(algorithm)}"
    text += "\n## What it needs\n\n"
    text += "".join(f"- {name}: {algorithm.requirement(name)}\n" for name in algorithm.collectives)
    written = _first(algorithm, WRITTEN)
    text += f"\n## A schedule\n\nOn `{written.spec}`, {written.collective} by `{written.member}`:\n\n"
    text += f"```text\n{_steps(written)}\n```\n\n"
    text += f"""\
`0→2 +[1-3]` means that rank 0 sends chunks 1 to 3 to rank 2, which adds them to its own; with `=` it copies them.

## Try it

```sh
ringroad schedule {written.member} --topology {shlex.quote(written.spec)} --collective {written.collective} --show
ringroad lab simulate {drawn.member} --topology {shlex.quote(drawn.spec)} --collective {drawn.collective} --bytes 1MiB
RINGROAD_ALGO={algorithm.name} python train.py   # your job with it
```
"""
    return text


def _article(collective: str) -> str:
    return f"{'an' if collective[0] == 'a' else 'a'} {collective}"


@dataclass(frozen=True)
class Case:
    """A network on which a member of a family performs a collective."""

    spec: str
    member: str
    collective: str

    def schedule(self) -> ringroad.Schedule:
        return ringroad.Schedule.build(self.member, self.spec, self.collective)


def _first(algorithm: ringroad.Algorithm, specs: list[str]) -> Case:
    """The first of some networks on which the algorithm runs, with the first member and collective."""
    for spec in specs:
        for member in _members(algorithm, spec):
            for collective in member.collectives:
                if member.supports(spec, collective):
                    return Case(spec, member.name, collective)
    raise ValueError(f"{algorithm.name} runs on none of {', '.join(specs)}; add a network for it in {__file__}")


def _runs(algorithm: ringroad.Algorithm, specs: list[str]) -> bool:
    return any(e["steps"] is not None for spec in specs for e in _entries(spec) if e["family"] == algorithm.name)


def _members(algorithm: ringroad.Algorithm, spec: str) -> list[ringroad.Algorithm]:
    return [one for one in ringroad.algorithms(spec) if one.name.partition(":")[0] == algorithm.name]


def _steps(case: Case) -> str:
    lines = str(case.schedule()).rstrip().splitlines()
    more = [f"... {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return "\n".join([*lines[:LINES], *more])


def _drawn(algorithm: ringroad.Algorithm) -> Case:
    own = DRAWN_ON.get(algorithm.name)
    return _first(algorithm, [own] if own else DRAWN)


def _drawing(algorithm: ringroad.Algorithm) -> Callable[[Path], None]:
    def draw(file: Path) -> None:
        case = _drawn(algorithm)
        done = ringroad.lab.simulate(case.schedule(), case.spec, LENGTH)
        drawn = done.plot("links", columns=2 if done.steps in (2, 4) else 3)
        drawn.savefig(file, transparent=True)

    return draw


def _costs(algorithm: ringroad.Algorithm) -> str:
    """A table with a row for each collective and network; of a family, its first member's costs."""
    rows: dict[tuple[str, ...], list[str]] = {}
    model = ringroad.CostModel()
    for spec in COSTED if _runs(algorithm, COSTED) else WRITTEN:
        for collective in algorithm.collectives:
            entry = next(e for e in _entries(spec) if (e["family"], e["collective"]) == (algorithm.name, collective))
            if entry["steps"] is None:
                continue
            network = ringroad.Topology(spec)
            schedule = ringroad.Schedule.build(entry["algorithm"], network, collective)
            cost = model.cost(schedule, network, LENGTH)
            member = [f"`{entry['algorithm']}`"] if algorithm.parameter else []
            cells = (
                *(f"`{spec}`", *member, str(entry["steps"]), str(cost.hops), f"{entry['sent']:.4g}"),
                *(whole(_about(round(cost.max_link_load * LENGTH))), str(entry["ports"])),
                *(whole(seconds_text(cost.seconds)), "yes" if entry["bit_identical"] else "no"),
            )
            rows.setdefault(cells, []).append(collective)
    columns = ["collective", "network", *(["member"] if algorithm.parameter else []), "steps", "hops", "sent"]
    return f"""\
{table([*columns, "busiest link", "ports", "time", "same bits"], _joined(rows))}
*Hops* are those of the longest route of each step, summed. *Sent* is what the busiest rank sends by all its ports, in
vectors. *Busiest link* and *time* are for a vector of {bytes_text(LENGTH)}. *Same bits* says whether all ranks end with
the same bits after a sum of floats.
"""


def _joined(rows: dict[tuple[str, ...], list[str]]) -> list[list[str]]:
    """The rows, each after the collectives that have it, by collective."""
    return sorted([[", ".join(names), *cells] for cells, names in rows.items()], key=lambda row: row[0])


@cache
def _entries(spec: str) -> list[dict[str, object]]:
    return on_network(ringroad.Topology(spec))


# ------------------------------------------------------------------------------------------------ what wins where


@dataclass(frozen=True)
class Span:
    """A range of sizes in which members of a family are the fastest; without an end it is the last one."""

    family: str
    parameters: tuple[str, ...]
    first: int
    end: int | None

    @property
    def name(self) -> str:
        """The member, or the family of several."""
        return ":".join([self.family, *(self.parameters if len(self.parameters) == 1 else ())])

    def __str__(self) -> str:
        if self.end is None:
            return whole(f"from {_about(self.first)} on" if self.first else "all sizes")
        return whole(f"{_about(self.first)} to {_about(self.end)}" if self.first else f"up to {_about(self.end)}")


@cache
def _asked(collective: str, spec: str) -> tuple[dict[bool, list[tuple[int, str]]], list[list[ringroad.Candidate]]]:
    """The switch points of bit-identical members and, where that differs, of all, and the candidates for each of
    `SIZES`: one question after the other, since the model keeps its latest costs."""
    model, topology = ringroad.CostModel(), ringroad.Topology(spec)
    kinds = (True, False) if oracle.COLLECTIVES[collective].reduces else (True,)
    points = {identical: model.switch_points(collective, topology, identical) for identical in kinds}
    return points, [size.candidates for size in model.compare(collective, topology, SIZES).sizes]


@cache
def _fastest(collective: str, bit_identical: bool) -> dict[str, list[Span]]:
    """The fastest families by network; of bit-identical members only, as it is for floats, or of all, as it is for
    integers."""
    if not bit_identical and not oracle.COLLECTIVES[collective].reduces:
        return _fastest(collective, True)
    found = {}
    for spec in CHOSEN:
        points = _asked(collective, spec)[0][bit_identical]
        ends = [*(start for start, _ in points[1:]), None]
        spans: list[Span] = []
        for (start, name), end in zip(points, ends, strict=True):
            family, _, parameter = name.partition(":")
            if end is not None and end <= LEAST:
                continue
            own = (parameter,) if parameter else ()
            if spans and spans[-1].family == family:
                before = spans.pop()
                start, own = before.first, tuple(dict.fromkeys(before.parameters + own))
            spans.append(Span(family, own, start if start > LEAST else 0, end))
        found[spec] = spans
    return found


def _wins(algorithm: ringroad.Algorithm) -> str:
    """A table of the networks and sizes for which the algorithm is the fastest, or how near it comes."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for spec in CHOSEN:
        for collective in algorithm.collectives:
            for_floats = _own(algorithm, _fastest(collective, True)[spec])
            for_integers = _own(algorithm, _fastest(collective, False)[spec])
            name = collective if for_floats else f"{collective} of integers"
            if spans := for_floats or for_integers:
                rows.setdefault((f"`{spec}`", _spans(algorithm, spans)), []).append(name)
    by = "By the [cost model](../algorithms.md#which-one-wins-where)"
    if rows:
        return f"{by}, of all algorithms:\n\n{table(['collective', 'network', 'sizes'], _joined(rows))}"
    nearest = _nearest(algorithm)
    if nearest is None:
        return f"{by}, it is never considered by default on the networks of that list; name it to use it.\n"
    ratio, _, collective, spec, size, best = nearest
    times = "as long as" if ratio < 1.0005 else f"{ratio:.4g} times as long as"
    return (
        f"{by}, on none of the networks of that list. It comes nearest in {_article(collective)} of {bytes_text(size)} "
        f"on `{spec}`, where it takes {times} [{best}]({best.partition(':')[0]}.md).\n"
    )


def _own(algorithm: ringroad.Algorithm, spans: list[Span]) -> list[Span]:
    return [span for span in spans if span.family == algorithm.name]


def _spans(algorithm: ringroad.Algorithm, spans: list[Span]) -> str:
    letter = algorithm.parameter[0] if algorithm.parameter else ""
    return "; ".join(f"{span} ({letter} = {', '.join(span.parameters)})" if letter else str(span) for span in spans)


def _nearest(algorithm: ringroad.Algorithm) -> tuple[float, int, str, str, int, str] | None:
    """The ratio to the fastest where that is the least, the first such case, its collective, network and size, and the
    fastest one there."""
    found = []
    for collective in algorithm.collectives:
        for spec in CHOSEN:
            for size, rows in zip(SIZES, _asked(collective, spec)[1], strict=True):
                best = next(row for row in rows if row.bit_identical)
                own = next((row for row in rows if row.algorithm.partition(":")[0] == algorithm.name), None)
                if own:
                    ratio = round(own.ratio / best.ratio, 4)
                    found.append((ratio, len(found), collective, spec, size, best.algorithm))
    return min(found, default=None)


def _about(size: int) -> str:
    """A number of bytes to three digits."""
    return f"{significant(size / 1024)} KiB" if 1024 <= size < 1 << 20 else about_bytes(size)
