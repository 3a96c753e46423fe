from collections.abc import Iterator

import pytest
from zygote import Zygote

pytest.importorskip("torch")


@pytest.fixture(scope="session")
def ranks() -> Iterator[Zygote]:
    """`ranks.run("module.function" of the package ranks, number of ranks, *arguments)`"""
    zygote = Zygote()
    yield zygote
    zygote.close()
