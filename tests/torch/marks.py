"""What tests need."""

import pytest

torch = pytest.importorskip("torch")

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
MODERN = pytest.mark.skipif(VERSION < (2, 14), reason="before torch 2.14 no Backend can be written in Python")
