"""`ringroad convert`: schedules and networks from one format to another."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad._native import Topology
from ringroad._support.files import read_json
from ringroad._support.text import parse_bytes, print_fields, print_json
from ringroad.cli._options import Format, Json, Size
from ringroad.lab import formats


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A schedule (.json, MSCCL's .xml) or a network.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; its ending says the format.")],
    format: Format = None,
    size: Size = "1MiB",
    as_json: Json = False,
) -> None:
    """Convert a schedule to another format, after it has been verified, or a network (.json, .graphml)."""
    if _is_network(source):
        if format is not None:
            raise ValueError(
                f"--format {format} is for schedules, and {source} is a network; name OUT .json or .graphml"
            )
        network = Topology(source)
        network.save(target)
        about: dict[str, Any] = {"network": network.spec, "ranks": network.ranks, "links": len(network.links)}
        files = [target]
    else:
        schedule = formats.read(source)
        schedule.verify()
        files = formats.write(schedule, target, format=format, bytes=parse_bytes(size))
        about = {
            "schedule": schedule.name,
            "collective": schedule.collective,
            "root": schedule.root,
            "ranks": schedule.ranks,
            "steps": schedule.steps,
            "chunks": schedule.chunks,
            "slots": schedule.slots,
            "verified": True,
        }
    names = [str(file) for file in files]
    if as_json:
        return print_json(about | {"files": names})
    shown = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    rows = [(key, "yes" if value is True else str(value)) for key, value in about.items() if value is not None]
    return print_fields(str(source), [*rows, ("written", shown)])


def _is_network(path: Path) -> bool:
    """Whether a file is a network: by its ending, or JSON without steps."""
    if path.suffix in (".graphml", ".gml", ".csv", ".edges", ".edgelist", ".txt"):
        return True
    if path.suffix != ".json":
        return False
    try:
        content = read_json(path)
    except ValueError:
        return False
    return isinstance(content, dict) and "steps" not in content
