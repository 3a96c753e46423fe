"""How objects show themselves in notebooks: HTML tables in the colours of the page, and pandas DataFrames."""

import importlib
from collections.abc import Sequence
from functools import singledispatch
from html import escape
from typing import Any

from ringroad import _graphs
from ringroad._native import Algorithm, CostModel, Schedule, Topology
from ringroad._support.text import seconds_text, significant

_RANKS = 16
"""Schedules of more ranks are not shown."""
_QUICK = 50_000_000
"""A table has no diameter if the search for it would take more steps than this."""
_LINK = ("source", "target", "bandwidth", "capacity", "latency", "extra_latency")
_SEND = ("step", "source", "destination", "chunks", "action", "port", "from", "into")
_REQUIREMENT = ("algorithm", "collective", "requirement")


def table(
    title: str,
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    *,
    right: Sequence[str] = (),
    strong: str | None = None,
    below: str = "",
) -> str:
    """An HTML table. It sets no colours, so that it can be read on light and on dark pages.

    The first cell of a row is its title. `right` are the columns that are aligned right, `strong` the title of the row
    to emphasise, `below` a text under the table.
    """

    def line(cells: Sequence[str], others: str) -> str:
        text = ""
        for number, cell in enumerate(cells):
            kind = others if number else "th"
            side = "right" if number < len(header) and header[number] in right else "left"
            weight = ";font-weight:bold" if cells[0] == strong else ""
            text += f"<{kind} style='text-align:{side}{weight}'>{escape(cell)}</{kind}>"
        return f"<tr>{text}</tr>"

    head = line(header, "th") if header else ""
    body = "".join(line(row, "td") for row in rows)
    caption = f"<caption style='caption-side:top;text-align:left;color:inherit'>{escape(title)}</caption>"
    note = f"<pre style='background:none;color:inherit'>{escape(below)}</pre>" if below else ""
    return f"<table style='color:inherit'>{caption}{head}{body}</table>{note}"


def frame(rows: Sequence[object], columns: Sequence[str] | None = None) -> Any:
    """A pandas.DataFrame of tuples or dataclasses. Raises ImportError if pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise ImportError("a DataFrame needs pandas; install it with: pip install pandas") from None
    return pandas.DataFrame(rows, columns=columns)


@singledispatch
def html(shown: object) -> str:
    """The HTML of an object of the extension."""
    raise TypeError(f"{type(shown).__name__} has no table")


@singledispatch
def df(shown: object) -> Any:
    """The DataFrame of an object of the extension."""
    raise TypeError(f"{type(shown).__name__} has no DataFrame")


@html.register
def _(topology: Topology) -> str:
    quick = topology.ranks * len(topology.links) <= _QUICK
    return table(topology.spec, _graphs.describe(topology._facts(diameter=quick)))


@df.register
def _(topology: Topology) -> Any:
    return frame(topology._links(), _LINK)


@html.register
def _(schedule: Schedule) -> str:
    root = "" if schedule.root is None else f" (root {schedule.root})"
    rows = [
        ("collective", schedule.collective + root),
        ("ranks", str(schedule.ranks)),
        ("steps", str(schedule.steps)),
        ("chunks", str(schedule.chunks)),
        ("ports", str(schedule.ports)),
        ("most that a rank sends", f"{schedule.max_sent:.4g} of the message"),
        ("stored", "the sends of one rank for all" if schedule.symmetric else "the sends of every rank"),
    ]
    lines = str(schedule).splitlines()[1:] if schedule.ranks <= _RANKS else []
    return table(schedule.name, rows, below="\n".join(lines))


@df.register
def _(schedule: Schedule) -> Any:
    return frame(schedule.sends(), _SEND)


@html.register
def _(algorithm: Algorithm) -> str:
    rows = [("does", algorithm.summary), ("source", algorithm.source)]
    if algorithm.parameter is not None:
        name, meaning = algorithm.parameter
        rows.append((f"parameter {name}", meaning))
    rows += [(collective, f"needs {algorithm.requirement(collective)}") for collective in algorithm.collectives]
    return table(algorithm.name, rows)


@df.register
def _(algorithm: Algorithm) -> Any:
    rows = [(algorithm.name, collective, algorithm.requirement(collective)) for collective in algorithm.collectives]
    return frame(rows, _REQUIREMENT)


def _parameters(model: CostModel) -> dict[str, Any]:
    return model.__getnewargs_ex__()[1]


def model_text(model: CostModel) -> str:
    """The expression that makes the model, without what is 0 or unset; but a default that is not 0 is always there."""
    always = ("step_latency", "incast_latency")
    shown = {name: value for name, value in _parameters(model).items() if value or name in always}
    return f"CostModel({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


@html.register
def _(model: CostModel) -> str:
    rows = [
        ("start of a step", seconds_text(model.step_latency)),
        ("each further message", seconds_text(model.message_latency)),
        ("each further sender to a port", seconds_text(model.incast_latency)),
        ("hop", "as the links say" if model.hop_latency is None else seconds_text(model.hop_latency)),
        ("link", "as the links say" if model.bandwidth is None else _rate(model.bandwidth)),
        ("reduction", "takes no time" if model.reduce_cost == 0 else _rate(1 / model.reduce_cost)),
    ]
    if model.reduce_cost:
        rows.append(("a rank reduces", "while it receives" if model.overlapped else "after it has received"))
    if model.cores is not None:
        hosts = "hosts of their own" if model.over_links else "one memory"
        rows.append(("ranks share", f"{model.cores} cores; they have {hosts}"))
    return table("cost model", rows)


@df.register
def _(model: CostModel) -> Any:
    return frame([tuple(_parameters(model).values())], list(_parameters(model)))


def _rate(bytes_per_second: float) -> str:
    return f"{significant(bytes_per_second / 1e9)} GB/s"
