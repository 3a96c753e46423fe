"""`ringroad trace`: merges the traces that the ranks of a job wrote."""

from pathlib import Path
from typing import Annotated

import typer

from ringroad._support.text import print_json, print_table, print_wrapped, seconds_text
from ringroad.cli._options import Json, file_option, picture_option
from ringroad.lab import viz
from ringroad.measure.traces import Trace


def trace(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Directory named by RINGROAD_TRACE.")],
    output: Annotated[Path | None, file_option(help="Write all ranks to FILE, for ui.perfetto.dev.")] = None,
    plot: Annotated[Path | None, picture_option(help="Draw the ranks' timelines")] = None,
    communicator: Annotated[
        str | None, typer.Option(help="Prefix of the file names, if there are several communicators.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Merge the ranks' traces and summarise calls."""
    traced = Trace.read(*_files(directory, communicator or ""))
    if output is not None:
        traced.save_chrome_trace(output)
    if plot is not None:
        viz.timeline(traced).savefig(plot)
    if as_json:
        return print_json(
            {
                "title": traced.title,
                "ranks": traced.ranks,
                "messages": traced.messages,
                "seconds": traced.seconds,
                "lost": traced.lost,
                "calls": [call._asdict() for call in traced.calls],
            }
        )
    print_wrapped(f"{traced.title}, {traced.messages} messages in {seconds_text(traced.seconds)}\n")
    rows = [[c.call, str(c.times), seconds_text(c.median), seconds_text(c.slowest)] for c in traced.calls]
    print_table(["call", "times", "median", "slowest"], rows, right=["times", "median", "slowest"])
    if traced.lost:
        print_wrapped(f"\n{traced.lost} events were lost, because a rank's recorder was full")
    return None


def _files(directory: Path, beginning: str) -> list[Path]:
    """The files of one communicator. Raises ValueError if there are none, or if several communicators fit."""
    files = sorted(file for file in directory.iterdir() if file.suffix == ".json")
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(file.stem.rpartition("-")[0], []).append(file)
    found = [name for name in groups if name.startswith(beginning)]
    if not found:
        raise ValueError(f"{directory} has no trace; ranks write them when they close their communicators")
    if len(found) > 1:
        raise ValueError(
            f"{directory} has traces of several communicators; choose with --communicator {' or '.join(found)}"
        )
    return groups[found[0]]
