"""A file in which a process records its group, so that it does not found another one when it is started again."""

import os
import time
from pathlib import Path

from ringroad._native import read_file
from ringroad.start.doors import MOST, View

_EVERY = 5.0
"""Seconds after which the record names a later step."""


class Record:
    """The record of one process, or of several of the same group. Without a path it does nothing."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._written, self._due = ("", 0), 0.0

    @property
    def advice(self) -> str:
        """What to do if the group of the record is not there any more."""
        return f" ({self._path} says so: delete it to found another group, or to join any)" if self._path else ""

    def read(self) -> View | None:
        """The group in the file; None without one. ValueError if the file is something else."""
        try:
            text = read_file(self._path, MOST) if self._path else None
        except FileNotFoundError:
            text = None
        view = View.read(text)
        if text is not None and view is None:
            raise ValueError(f"{self._path} is not a record of an elastic group; pass another path as record=")
        return view

    def write(self, view: View) -> None:
        """Replaces the file in one go, whenever the members have changed, and now and then."""
        if self._path and ((view.group, view.epoch) != self._written or time.monotonic() > self._due):
            self.read()  # nothing but a record is replaced
            new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            new.unlink(missing_ok=True)
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(view.text())
                os.fsync(file.fileno())
            new.replace(self._path)
            self._written, self._due = (view.group, view.epoch), time.monotonic() + _EVERY

    def forget(self) -> None:
        """Removes the file, if it is a record."""
        if self._path and self.read():
            self._path.unlink(missing_ok=True)
