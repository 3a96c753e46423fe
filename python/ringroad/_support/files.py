"""Reads files that users name, regular ones up to a limit, and JSON that anybody may have written. The errors are plain
sentences that name the file."""

import json
import os
import stat
from os import PathLike
from pathlib import Path
from typing import Any

from ringroad import _native

_MAX_FILE_BYTES = 1 << 28
"""How long a file may be, as `read_file` has it."""
_DEEPEST = 64
"""How deeply JSON may be nested."""


def read_text(path: str | PathLike[str]) -> str:
    """Returns the content of a file, without a byte order mark.

    Args:
        path: The file.

    Raises:
        ValueError: It is not text.
        OSError: It cannot be read, is no regular file, or has more than 256 MiB.
    """
    try:
        return _native.read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8") from None


def read_json(path: str | PathLike[str]) -> Any:
    """Returns the value of a file of JSON.

    Args:
        path: The file.

    Raises:
        ValueError: It is not JSON.
        OSError: As for `read_text`.
    """
    return parse_json(read_text(path), str(path))


def parse_json(text: str | bytes, what: str, shape: Any = object, most: int = _MAX_FILE_BYTES) -> Any:
    """Returns the value of JSON, whoever has written it.

    Args:
        text: The JSON.
        what: What it is, for the error.
        shape: What its value is: `str`, `bool`, `int` (from 0 on, below 2^63) or another class, `object` for anything;
            `[shape]` for a list of any length; a tuple of shapes for a list as long; a dictionary of shapes
            for an object that has at least these keys.
        most: How many bytes it may have.

    Raises:
        ValueError: It is something else. There is no other error.
    """
    if len(text) > most:
        raise ValueError(f"{what} has {len(text)} bytes, and may have {most}")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{what} is not JSON: {error}") from None
    level = [value]
    for _ in range(_DEEPEST):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))]
        level = [value for values in inner for value in values]
    if level:
        raise ValueError(f"{what} is nested too deeply")
    if not _fits(value, shape):
        raise ValueError(f"{what} has the wrong form")
    return value


def _fits(value: Any, shape: Any) -> bool:
    match shape:
        case dict():
            return isinstance(value, dict) and all(key in value and _fits(value[key], shape[key]) for key in shape)
        case tuple():
            return isinstance(value, list) and len(value) == len(shape) and all(map(_fits, value, shape))
        case [each]:
            return isinstance(value, list) and all(_fits(one, each) for one in value)
    if shape is int:
        return type(value) is int and 0 <= value < 1 << 63
    if shape is str:  # JSON can also name half a character
        return isinstance(value, str) and not any("\ud800" <= one <= "\udfff" for one in value)
    return isinstance(value, shape)


def check_own(path: Path, mark: bytes) -> None:
    """Raises FileExistsError if there is anything but a file that ringroad has written, which has `mark` near its
    beginning: it replaces nothing else in a place that the user has not named itself."""
    if os.path.lexists(path) and (not stat.S_ISREG(path.lstat().st_mode) or mark not in path.open("rb").read(512)):
        raise FileExistsError(f"{path} exists, and ringroad has not written it; move it, or name another path")
