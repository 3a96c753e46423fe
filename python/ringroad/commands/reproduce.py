"""`ringroad reproduce`: the evaluations of papers, recomputed with the cost model."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad.reproduce import PAPERS, Report
from ringroad.reproduce import reproduce as reports
from ringroad.reproduce.definition import Definition


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help=f"One of {', '.join(PAPERS)}.")],
    folder: Annotated[Path | None, typer.Option("--plot", metavar="DIR", help="Draw every figure there.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recompute a paper's evaluation, and compare it with what the paper states."""
    definition = Definition.load(paper)
    found: list[Report] = []
    if not as_json:
        print(f"{definition.source}\n{definition.model.why}\n")
    for report in reports(paper):
        found.append(report)
        if not as_json:
            report.show()
        picture = _draw(report, folder)
        if picture and not as_json:
            print(f"{picture}\n")
    verdicts = [verdict for report in found for verdict in report.verdicts]
    agreeing = sum(verdict.agrees for verdict in verdicts)
    if as_json:
        summary: dict[str, Any] = {"paper": paper, "source": definition.source, "model": vars(definition.model)}
        counts = {"statements": len(verdicts), "agreeing": agreeing}
        print(json.dumps(summary | counts | {"figures": [report.json() for report in found]}, indent=2))
        return
    print(f"{agreeing} of {len(verdicts)} statements agree")


def _draw(report: Report, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    from ringroad.reproduce.plot import draw

    return draw(report, folder)
