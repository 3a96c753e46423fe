"""Reads files that users name: regular ones, up to a limit. The errors are plain sentences that name the file."""

import json
from os import PathLike
from typing import Any

from ringroad import _native


def read_text(path: str | PathLike[str]) -> str:
    """Returns the content of a file.

    Args:
        path: The file.

    Raises:
        ValueError: It is not text.
        OSError: It cannot be read, is no regular file, or has more than 256 MiB.
    """
    try:
        return _native.read_file(path).decode()
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


def parse_json(text: str, what: str) -> Any:
    """Returns the value of JSON.

    Args:
        text: The JSON.
        what: What it is, for the error.

    Raises:
        ValueError: It is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{what} is not JSON: {error}") from None
