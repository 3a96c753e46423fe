"""Fixtures of the command line's tests."""

from pathlib import Path

import pytest
from helpers import LAUNCHERS


@pytest.fixture
def bare(monkeypatch):
    """An environment without a launcher's variables."""
    for name in [*(name for row in LAUNCHERS for name in row), "RINGROAD_STORE", "MASTER_ADDR", "MASTER_PORT"]:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def root(tmp_path):
    """`root({"proc/version": "text"})`: a folder with these files, in place of /."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "root"

    return make
