"""Local clusters that all tests share, since starting processes takes most of the time."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest
import ringroad
from helpers import OWN, TRANSPORTS
from ringroad import cli

# Tests do not use profiles that were measured on this machine.
os.environ["RINGROAD_CACHE"] = "none"
# A shell that starts the tests in the background makes them, and whatever they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Tables are as wide as in a pipe, wherever the tests run.
os.environ.pop("COLUMNS", None)

Clusters = Callable[..., ringroad.LocalCluster]


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """`clusters(n, transport="memory")`: a cluster of `n` workers over a transport, started at its first use.

    With `topology`, the workers know a network.
    """
    started: dict[tuple[int, str, str], ringroad.LocalCluster] = {}

    def cluster(n: int, transport: str = "memory", topology: str = "") -> ringroad.LocalCluster:
        key = (n, transport, topology)
        if key not in started:
            env = (TRANSPORTS | OWN)[transport] | ({"RINGROAD_TOPOLOGY": topology} if topology else {})
            started[key] = ringroad.local(n, env=env, timeout=60)
        return started[key]

    yield cluster
    for one in started.values():
        one.close()


@pytest.fixture
def ask(capsys):
    """`ask("schedule", ...)`: the standard output of a command that succeeds."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.main(arguments)
        out, err = capsys.readouterr()
        assert (end.value.code, err) == (0, "")
        return out

    return run


@pytest.fixture
def pyplot():
    """matplotlib, which draws to files; all pictures are closed after the test."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")
