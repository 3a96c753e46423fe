"""Files that users name may be anything: what cannot be read ends in one plain sentence, at once."""

import os
from pathlib import Path
from typing import Any

import pytest
import ringroad
from ringroad._support.files import check_own
from ringroad.lab import formats, routes
from ringroad.lab.training import Model
from ringroad.measure.traces import Trace

DEEP = "[" * 200_000
NO_TRACE = "is not the trace of a rank"
HEAD = '{"otherData": {"started": 1, "clock": 1, "ranks": 1, "lost": 0, "communicator": "x"}, "traceEvents": %s}'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "folder.json").mkdir()
    for name, text in (
        ("deep.json", DEEP),
        ("deep.toml", "a = " + DEEP),
        ("list.json", "[]"),
        ("other.json", '{"otherData": "started"}'),
        ("null.json", '{"otherData": null}'),
        ("about.json", '{"otherData": {"started": 1}, "traceEvents": []}'),
        ("event.json", HEAD % '[{"ph": "X"}]'),
        ("word.json", HEAD % '["x"]'),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    return tmp_path


def test_files_that_are_none(files: Path, refused: Any) -> None:
    irregular = [(name, "is not a regular file") for name in ("fifo.json", "zero.json", "folder.json")]
    cases = {
        Trace.read: [
            *irregular,
            *((f"{name}.json", NO_TRACE) for name in ("list", "other", "null", "about", "event", "word")),
            ("deep.json", "is nested too deeply"),
            ("bytes.json", "is not text"),
        ],
        formats.read: [*irregular, ("deep.json", "this is not a schedule"), ("bytes.json", "not UTF-8 text")],
        ringroad.Topology: [*irregular, ("deep.json", "cannot be read as a graph")],
        Model.load: [*irregular, ("deep.toml", "is nested too deeply")],
    }
    for read, rows in cases.items():
        for name, expected in rows:
            with pytest.raises((ringroad.RingroadError, ValueError, OSError)) as caught:
                read(str(files / name))
            assert expected in str(caught.value) and name in str(caught.value), (read, name)
    with refused(ringroad.TopologyError):
        routes.Routes.from_json(DEEP)


def test_settings_name_regular_files(files: Path, monkeypatch: pytest.MonkeyPatch, refused: Any) -> None:
    for setting in ("RINGROAD_PROFILE", "RINGROAD_TUNER_FILE", "RINGROAD_TOPOLOGY"):
        for name in ("fifo.json", "zero.json"):
            with monkeypatch.context() as patch:
                patch.setenv(setting, str(files / name))
                with refused(ringroad.ConfigError, setting, files / name):
                    ringroad.Communicator.in_process(2)


def test_a_fifo_in_the_cache_of_schedules(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place is known by the file that is kept there before."""
    network = "without(torus:9x9, 0-1)"
    monkeypatch.setenv("RINGROAD_CACHE", str(files / "cache"))

    def first() -> str:
        ranks = ringroad.Communicator.in_process(81, topology=network, algorithm="bfb")
        return ranks[0].explain("allreduce", 1 << 20).algorithm

    chosen = first()
    kept = list((files / "cache/schedules").glob("*.schedule"))
    assert kept and [(files / "cache" / name).stat().st_mode & 0o777 for name in ("", "schedules")] == [0o700] * 2
    for file in kept:
        file.unlink()
        os.mkfifo(file)
    assert first() == chosen


def test_only_own_files_are_replaced(tmp_path: Path, refused: Any) -> None:
    """Where users name a directory, and ringroad the files in it."""
    own, other, empty = tmp_path / "own", tmp_path / "other", tmp_path / "empty"
    own.write_bytes(b"\x89PNG ringroad")
    other.write_bytes(b"precious")
    empty.touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(own)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    for name in ("own", "missing"):
        check_own(tmp_path / name, b"ringroad")
    for name in ("other", "empty", "folder", "fifo", "link", "dangling"):
        with refused(FileExistsError, name):
            check_own(tmp_path / name, b"ringroad")


def test_cost_lines_have_roots() -> None:
    for name, network, collective, root in (
        ("trees:8", "hosts:6x3", "broadcast", 11),
        ("spanning-trees:64", "torus:7x3", "reduce", 18),
    ):
        built = ringroad.Schedule.build(name, network, collective, root)
        line = ringroad.Algorithm(name).cost_line
        assert line(network, collective, root) == (built.steps, built.max_sent)
        assert line(network, collective) != line(network, collective, root)
