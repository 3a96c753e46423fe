"""A paper's figures and statements, read from its TOML file."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import resources
from itertools import count, takewhile
from typing import Any, Literal

from ringroad._support.text import parse_bytes

PAPERS = ["swing", "trivance", "kolmakov", "zhao", "basu"]
"""The papers whose evaluations can be reproduced."""


@dataclass(frozen=True)
class Model:
    """The paper's parameters of network and software: seconds, and bytes per second of a link."""

    step_latency: float
    link_latency: float
    processing: float
    bandwidth: float
    reduce_cost: float


@dataclass(frozen=True)
class Assumption:
    """An assumption of the evaluation, with its origin: the paper, a fit to the paper's statements, or ours."""

    origin: str
    text: str


ORIGINS = {"paper": "the paper's", "fit": "fitted to the paper's statements", "ours": "ours"}
"""The origins of assumptions."""


Kind = Literal["statement", "fit", "check"]
"""What is compared: a statement of the paper; a statement to which an assumption was fitted, whose agreement proves
nothing; or a check of ours, of which the paper says nothing."""


@dataclass(frozen=True)
class Series:
    """A line of a figure: at every size the fastest of several forms.

    A form is an algorithm; `swing-latency/0` is the algorithm on the ports of its slice 0 alone. A series that is
    `aside` is shown, but the subject is not compared with it.
    """

    key: str
    label: str
    letter: str
    forms: Sequence[str]
    aside: bool = False


@dataclass(frozen=True)
class Setting:
    """A panel of a figure: a network, and the series that it leaves out."""

    topology: str
    bandwidth: float
    without: Sequence[str]
    label: str


@dataclass(frozen=True)
class Claim:
    """A statement of the paper about a quantity on some panels: a number within a margin, a bound, or a name.

    `arguments` are those of the quantity. Bytes agree within a factor of `margin`. If the statement is an equation, one
    of `FORMULAS` computes it. If the paper has words only, the number is `ours`. Only those whose `kind` is "statement"
    count as statements.
    """

    quantity: str
    text: str
    arguments: Mapping[str, Any]
    stated: Any = None
    margin: float = 0.0
    at_least: Any = None
    at_most: Any = None
    formula: str = ""
    panels: Sequence[int] | None = None
    why: str = ""
    ours: bool = False
    kind: Kind = "statement"


@dataclass(frozen=True)
class Figure:
    """A figure or a table of the paper. `plot` says what its panels show over the sizes."""

    name: str
    title: str
    plot: str
    settings: tuple[Setting, ...]
    sizes: tuple[int, ...]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Definition:
    """A paper's evaluation: its figures, and what it states of them.

    Attributes:
        paper: One of `PAPERS`.
        source: The paper's authors, title and place.
        subject: The series that the paper is about.
        model: The paper's network and software.
        assumptions: What the evaluation rests on.
        series: The lines of the figures.
        figures: The figures and tables.
    """

    paper: str
    source: str
    subject: str
    model: Model
    assumptions: tuple[Assumption, ...]
    series: tuple[Series, ...]
    figures: tuple[Figure, ...]

    @classmethod
    def load(cls, paper: str) -> "Definition":
        """Reads the definition of a paper's evaluation.

        Args:
            paper: One of `PAPERS`.

        Raises:
            ValueError: It is another one.
        """
        data = _data(paper)
        model = Model(**data["model"])
        series = tuple(Series(key, **entry) for key, entry in data["series"].items())
        figures = tuple(_figure({"sizes": data["sizes"]} | entry, model) for entry in data["figure"])
        return cls(paper, data["source"], data["subject"], model, _assumptions(data), series, figures)

    @property
    def reading(self) -> str:
        """How to read the tables, in words."""
        letters = "; ".join(
            f"{series.letter} is {series.label}"
            for series in self.series
            if not series.aside and series.key != self.subject
        )
        return f"Gains are those of {self.subject_label} over the best other series, whose letter follows: {letters}."

    @cached_property
    def subject_label(self) -> str:
        """The name of the algorithm that the paper is about."""
        return next(series.label for series in self.series if series.key == self.subject)


@dataclass(frozen=True)
class NetworkModel:
    """Parameters of costs: seconds for a step, bytes of the vector, and bytes per second of all links of a rank."""

    alpha: float
    bytes: int
    bandwidth: float


@dataclass(frozen=True)
class NetworkDefinition:
    """The evaluation of a paper whose tables compare networks. `tables` holds their data as in the file."""

    paper: str
    source: str
    reading: str
    """How to read the tables."""
    model: NetworkModel
    assumptions: tuple[Assumption, ...]
    tables: Mapping[str, Any]

    @classmethod
    def load(cls, paper: str) -> "NetworkDefinition":
        """The definition of one of `PAPERS` that compares networks."""
        data = _data(paper)
        model = NetworkModel(data["model"]["alpha"], parse_bytes(data["model"]["bytes"]), data["model"]["bandwidth"])
        return cls(paper, data["source"], data["reading"], model, _assumptions(data), data)


def introduction(paper: str) -> Definition | NetworkDefinition:
    """The definition of one of `PAPERS`, of either kind. Raises ValueError for others."""
    return Definition.load(paper) if "figure" in _data(paper) else NetworkDefinition.load(paper)


def _data(paper: str) -> dict[str, Any]:
    if paper not in PAPERS:
        raise ValueError(f"unknown paper {paper!r}; expected one of: {', '.join(PAPERS)}")
    return tomllib.loads(resources.files(__package__).joinpath(f"{paper}.toml").read_text())


def _assumptions(data: dict[str, Any]) -> tuple[Assumption, ...]:
    return tuple(Assumption(**entry) for entry in data["assumptions"])


def _sizes(entry: dict[str, Any]) -> tuple[int, ...]:
    smallest, largest, factor = parse_bytes(entry["smallest"]), parse_bytes(entry["largest"]), entry["factor"]
    sizes = takewhile(lambda size: size <= largest, (smallest * factor**power for power in count()))
    return tuple(sizes)


def _figure(entry: dict[str, Any], model: Model) -> Figure:
    """A figure. Panels are specs of networks, or tables of a `Setting`."""
    common = {"bandwidth": model.bandwidth, "without": entry.get("without", [])}
    panels = [{"topology": panel} if isinstance(panel, str) else panel for panel in entry["panels"]]
    settings = tuple(Setting(**{"label": panel["topology"]} | common | panel) for panel in panels)
    claims = tuple(_claim(claim) for claim in entry.get("claims", []))
    return Figure(entry["name"], entry["title"], entry["plot"], settings, _sizes(entry["sizes"]), claims)


def _claim(entry: dict[str, Any]) -> Claim:
    known = {field.name for field in fields(Claim)}
    arguments = {name: value for name, value in entry.items() if name not in known}
    return Claim(**{name: value for name, value in entry.items() if name in known}, arguments=arguments)
