"""A paper's evaluation, as its TOML file has it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

PAPERS = ["swing", "trivance", "kolmakov", "zhao", "basu"]
"""The papers whose evaluations can be reproduced."""

ORIGINS = {"paper": "the paper's", "fit": "fitted to the paper's statements", "ours": "ours"}
"""The origins of assumptions."""


@dataclass(frozen=True)
class Definition:
    """A paper's evaluation: what it assumes, and what the paper has and states.

    Attributes:
        paper: One of `PAPERS`.
        source: The paper's authors, title and place.
        reading: How to read the tables.
        model: The paper's parameters of network and software, in seconds, bytes, and bytes per second.
        assumptions: What the evaluation rests on: each has a `text`, and as `origin` the paper, a fit to the paper's
            statements, or ours.
        data: The whole file: series, and figures with panels and claims; or data of tables that compare networks.
    """

    paper: str
    source: str
    reading: str
    model: Mapping[str, Any]
    assumptions: list[dict[str, str]]
    data: Mapping[str, Any]

    @classmethod
    def load(cls, paper: str) -> "Definition":
        """Reads the definition of a paper's evaluation.

        Args:
            paper: One of `PAPERS`.

        Raises:
            ValueError: It is another one.
        """
        if paper not in PAPERS:
            raise ValueError(f"unknown paper {paper!r}; expected one of: {', '.join(PAPERS)}")
        data = tomllib.loads(resources.files(__package__).joinpath(f"{paper}.toml").read_text())
        return cls(paper, data["source"], data["reading"], data["model"], data["assumptions"], data)
