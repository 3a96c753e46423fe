"""`ringroad lab reproduce`: papers' evaluations, recomputed with the cost model."""

from pathlib import Path
from typing import Annotated

import typer

from ringroad._support.text import print_json, print_wrapped
from ringroad.cli._options import Json, folder_option
from ringroad.lab.reproduce import PAPERS, Report, TableReport
from ringroad.lab.reproduce import reproduce as reports
from ringroad.lab.reproduce.claims import counted, counts_text
from ringroad.lab.reproduce.definition import ORIGINS, Definition
from ringroad.lab.reproduce.plot import draw


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help=f"One of {', '.join(PAPERS)}.")],
    folder: Annotated[Path | None, folder_option("--plot", help="Draw all figures into this directory")] = None,
    as_json: Json = False,
) -> None:
    """Recompute a paper's evaluation and compare results."""
    definition = Definition.load(paper)
    found: list[Report | TableReport] = []
    if not as_json:
        _introduce(definition)
    for report in reports(paper):
        found.append(report)
        if not as_json:
            report.show()
        picture = draw(report, folder) if folder else None
        if picture and not as_json:
            print(f"{picture}\n")
    verdicts = [verdict for report in found for verdict in report.verdicts]
    if as_json:
        about = {name: getattr(definition, name) for name in ("paper", "source", "model", "assumptions")}
        print_json(about | counted(verdicts) | {"figures": [report.json() for report in found]})
    else:
        print_wrapped(counts_text(verdicts))


def _introduce(definition: Definition) -> None:
    """Prints the assumptions of the evaluation, and how to read the tables."""
    print_wrapped(f"{definition.source}\n\nAssumptions:")
    for assumption in definition.assumptions:
        print_wrapped(f"  {ORIGINS[assumption['origin']]}: {assumption['text']}", "    ")
    print_wrapped(f"\n{definition.reading}")
    print_wrapped("Values within a tolerance agree; all tolerances are ours.\n")
