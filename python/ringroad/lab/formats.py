"""`ringroad.lab.formats`: schedules in the files of other programs."""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ringroad._native import CostModel, Schedule, ScheduleError, read_file
from ringroad._support.text import check_class

__all__ = ["Format", "read", "write"]
__dir__ = __all__.copy


@dataclass(frozen=True)
class Format:
    """A format of schedules.

    Attributes:
        name: What `format=` and `--format` accept.
        suffix: How the names of its files end.
        about: What it is for.
        can_read: Whether ringroad also reads it.
    """

    name: str
    suffix: str
    about: str
    can_read: bool = False


FORMATS: tuple[Format, ...] = (
    Format("json", ".json", "ringroad's own format", can_read=True),
    Format("msccl", ".xml", "MSCCL, msccl-tools, TACCL, TE-CCL, ForestColl", can_read=True),
    Format("mscclpp", ".mscclpp.json", "execution plans of MSCCL++ 0.9.0"),
    Format("goal", ".goal", "LogGOPSim"),
    Format("chakra", ".et", "Chakra traces for ASTRA-sim, a file for each rank"),
)
"""All formats."""


def read(path: str | PathLike[str]) -> Schedule:
    """Reads a schedule from a file: ringroad's JSON, or the XML of MSCCL.

    Args:
        path: The file. Its contents say which format it has.

    Returns:
        The schedule. It is not verified.

    Raises:
        ScheduleError: The file is no schedule, or has something that a schedule cannot express.
            The message names the file, and the line of an XML file.
        OSError: The file cannot be read, is no regular file, or has more than 256 MiB.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     ring = ringroad.Schedule.build("ring", 4)
        ...     files = ringroad.lab.formats.write(ring, f"{directory}/ring.xml")
        ...     ringroad.lab.formats.read(files[0]).name
        'ring'
    """
    path = Path(path)
    content = read_file(path, Schedule._MOST_BYTES)
    try:
        return Schedule._read(content)
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error}") from None


def write(
    schedule: Schedule,
    path: str | PathLike[str],
    *,
    format: str | None = None,
    bytes: int | str = 1 << 20,
    model: CostModel | None = None,
) -> list[Path]:
    """Writes a schedule to a file, or for Chakra to a file for each rank.

    Args:
        schedule: The schedule. It should be verified.
        path: The file. The rank follows in the names of Chakra's files: `ring.et` becomes `ring.0.et`, `ring.1.et`
            and so on.
        format: "json", "msccl", "mscclpp", "goal" or "chakra". None: as the name of the file ends.
        bytes: The length of the vector, a number of bytes or a text such as "1MiB", for "goal" and "chakra", which
            have messages of bytes.
        model: The cost model whose time of reductions "goal" and "chakra" have. None: the default one.

    Returns:
        The files.

    Raises:
        ScheduleError: The format cannot express the schedule. The message says why.
        ValueError: The format is unknown.
        OSError: A file cannot be written.
    """
    check_class("schedule", schedule, Schedule)
    path = Path(path)
    chosen = _chosen(path, format)
    if chosen.name == "chakra":
        stem = path.name.removesuffix(chosen.suffix)
        files = [path.with_name(f"{stem}.{rank}{chosen.suffix}") for rank in range(schedule.ranks)]
        for file, content in zip(files, schedule.to_chakra(bytes, model), strict=True):
            file.write_bytes(content)
        return files
    writers: dict[str, Callable[[], str]] = {
        "json": schedule.to_json,
        "msccl": schedule.to_msccl,
        "mscclpp": schedule.to_mscclpp,
        "goal": lambda: schedule.to_goal(bytes, model),
    }
    path.write_text(writers[chosen.name]())
    return [path]


def _chosen(path: Path, name: str | None) -> Format:
    """The format of that name, or the one whose suffix the path has; the longest if it has several."""
    if name is not None:
        found = [format for format in FORMATS if format.name == name]
    else:
        found = [format for format in FORMATS if path.name.endswith(format.suffix)]
    if not found:
        known = ", ".join(format.name for format in FORMATS)
        what = f"unknown format {name!r}" if name else f"{path.name!r} does not say the format"
        raise ValueError(f"{what}; expected one of: {known}")
    return max(found, key=lambda format: len(format.suffix))
