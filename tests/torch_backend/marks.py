"""Marks for tests with special requirements."""

import pytest

torch = pytest.importorskip("torch")

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def lacking(version: tuple[int, int], what: str) -> pytest.MarkDecorator:
    """Skips a test if torch is older than the version."""
    return pytest.mark.skipif(version > VERSION, reason=f"before torch {version[0]}.{version[1]} {what}")
