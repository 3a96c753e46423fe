"""Local clusters that all tests share, since starting processes takes most of the time."""

import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import ringroad
from helpers import OWN, ROOT, TRANSPORTS, sentences, write_sentences
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


def pytest_addoption(parser):
    parser.addoption("--sentences", action="store_true", help="write what errors say to tests/sentences.txt")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Where whole files of tests write their sentences, those of tests that these files no longer have go."""
    if config.getoption("sentences") and not any("::" in argument for argument in config.args):
        files = {item.path for item in items}
        tests = {key_of(item) for item in items if "refused" in getattr(item, "fixturenames", ())}
        of = {key: ROOT / "tests" / key.partition("::")[0] for key in sentences() if key not in tests}
        write_sentences({key: [] for key, file in of.items() if file in files or not file.exists()})


def key_of(item) -> str:
    return f"{item.path.relative_to(ROOT / 'tests')}::{item.nodeid.partition('::')[2]}"


@pytest.fixture
def refused(request):
    """`with refused(ValueError, "root 2"):` expects an error of this class that has these words, and whose text is the
    next one of this test in `sentences.txt`. Ranks that are threads pass `rank`, and all say the same.
    """
    key, failed, write = key_of(request.node), request.session.testsfailed, request.config.getoption("sentences")
    kept, command = sentences().get(key, []), f"pytest --sentences tests/{key.partition('::')[0]}"
    said, turns = {}, Counter()

    @contextmanager
    def refused(error, *names, rank=0):
        __tracebackhide__ = True
        with pytest.raises(error) as caught:
            yield caught
        text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert [name for name in names if str(name) not in text] == [], text
        turn, text = turns[rank], plain(text)
        turns[rank] += 1
        assert said.setdefault(turn, text) == text, "ranks say different things"
        assert write or [text] == kept[turn : turn + 1], f"if this is right, run {command} and review its git diff"

    def plain(text: str) -> str:
        """The text in a line, without what differs between runs, machines and versions of other packages."""
        if "tmp_path" in request.fixturenames:
            text = text.replace(str(request.getfixturevalue("tmp_path")), "TMP")
        text = re.sub(r"\b(pid|process) \d+", r"\1 PID", text)
        text = re.sub(rf"(\bhost |\(){re.escape(socket.gethostname())}\b", r"\1HOST", text)
        text = re.sub(r"\b(127\.0\.0\.1:)\d+", r"\1PORT", text)
        ours = r"cannot be read as a graph|cannot be made a NumPy array|optimizer is not like that of this process"
        text = re.sub(rf"({ours}): .*", r"\1: OTHERS' WORDS", text)
        return re.sub(r"[\\\x00-\x1f]", lambda found: repr(found[0])[1:-1], text)

    yield refused
    if said and request.session.testsfailed == failed:
        if write:
            write_sentences({key: [said[turn] for turn in sorted(said)]})
        assert write or len(said) == len(kept), f"tests/sentences.txt has more for this test; run {command}"


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
