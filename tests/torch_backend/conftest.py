from collections.abc import Iterator

import pytest
from zygote import Zygote

pytest.importorskip("torch")


@pytest.fixture(scope="session")
def ranks() -> Iterator[Zygote]:
    """`ranks.run("module.function", number of ranks, *arguments)` runs a function of the package `ranks`."""
    zygote = Zygote()
    yield zygote
    zygote.close()
