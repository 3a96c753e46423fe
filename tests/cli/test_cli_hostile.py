"""Every option of every command, with values that make no sense: an error says so, without a traceback."""

import contextlib
import io
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import get_args

import pytest
from ringroad import cli
from ringroad.cli import bench, doctor, testbed, tune
from ringroad.measure.bench import launch, runner
from typer.main import get_command
from typer.models import ArgumentInfo

WORDS = [
    *([name] for names in cli.PANELS.values() for name in names if name != "lab"),
    *(["lab", name] for name in cli.LAB),
]
COMMANDS = {
    " ".join(path): signature(
        getattr(import_module(".".join(["ringroad.cli", *path])), path[-1]), eval_str=True
    ).parameters
    for path in WORDS
}
"""The parameters of each command."""
cli.app.rich_markup_mode, rich = None, cli.app.rich_markup_mode  # plain errors take less time
APP = get_command(cli.app)  # made once, not for every call
list(APP.commands.values())
list(APP.commands["lab"].commands.values())
cli.app.rich_markup_mode = rich
NETWORK = {"topology": "torus:2x2", "size": "8"}
VALID = {
    "schedule": {"name": "ring", **NETWORK},
    "explain": {"collective": "scatter", "sizes": "8", **NETWORK},
    "lab simulate": {"name": "ring", **NETWORK},
    "lab find": {"ranks": "4", "degree": "2", "size": "8"},
    "lab alltoall": {"budget": "1", **NETWORK},
    "lab routes": {"budget": "1", **NETWORK},
    "lab training": {"model": "alexnet", "topology": "ring:2"},
    "testbed": {"topology": "ring:2", "command": "true", "rate": "1Mbit"},
    "trace": {"directory": "."},
    "lab reproduce": {"paper": "none"},
}
"""The arguments with which a command does little."""
NUMBERS = ["-1", "0", "9223372036854775807", "-99999999999999999999999", "9" * 5000, "1.5", "nan", "1e999"]
TEXTS = ["", "é🦀", ",", "0:99999999999999999999999", "-1:-1:-1", "[%s]{}", "ring:99999999999999999999"]
PATHS = ["", ".", "list.json/file.json", "with\0zero", "x" * 5000, "list.json", "bytes.csv"]


class Started(Exception):
    """A command has accepted its arguments, and would start processes."""


def start(*_arguments, **_options):
    raise Started


@pytest.fixture(autouse=True)
def no_processes(monkeypatch, tmp_path):
    """Commands that start processes end there. The working directory has files that no command can use."""
    monkeypatch.setattr(cli, "app", APP)
    monkeypatch.chdir(tmp_path)
    Path("list.json").write_text("[1, {}]")
    Path("bytes.csv").write_bytes(b"\xff\x00")
    monkeypatch.setattr(tune, "_measure", start)
    monkeypatch.setattr(launch, "require_backend", start)
    monkeypatch.setattr(runner.Runner, "run", start)
    monkeypatch.setattr(bench, "reenter", lambda: None)
    monkeypatch.setattr(testbed, "reenter", lambda: None)
    monkeypatch.setattr(testbed, "EmulatedNetwork", start)
    monkeypatch.setattr(doctor, "perform_all", start)


def kind(parameter):
    """The type of a parameter, such as `int` or `list[str]`, without None."""
    (annotated, *_) = get_args(parameter.annotation)
    return next((one for one in get_args(annotated) if one is not type(None)), annotated)


def option(parameter):
    """The longest name of an option; None for an argument."""
    (_, info) = get_args(parameter.annotation)
    if isinstance(info, ArgumentInfo):
        return None
    names = [name for name in (info.default, *(info.param_decls or ())) if str(name).startswith("-")]
    return max(names, key=len, default=f"--{parameter.name.replace('_', '-')}")


def words(name, values):
    """The command line that gives these values to the parameters of a command."""
    given = [(option(parameter), values[each]) for each, parameter in COMMANDS[name].items() if each in values]
    options = [word for each in given if each[0] for word in each]
    return [*name.split(), *options, "--", *(value for flag, value in given if flag is None)]


def run(*arguments):
    """The exit status and the standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main(arguments)
        except SystemExit as end:
            return end.code, err.getvalue()
        except Started:
            return 0, ""
    raise AssertionError("a command ends by SystemExit")


def hostile(parameter):
    """Values for a parameter, by its type."""
    return {int: NUMBERS, Path: PATHS}.get(kind(parameter), NUMBERS + TEXTS)


CASES = [
    pytest.param(name, parameter, id=f"{name}-{parameter.name}")
    for name, parameters in COMMANDS.items()
    for parameter in parameters.values()
    if kind(parameter) is not bool
]


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_values_that_make_no_sense(name, parameter):
    for value in hostile(parameter):
        arguments = words(name, VALID.get(name, {}) | {parameter.name: value})
        try:
            status, err = run(*arguments)
        except Exception as error:
            raise AssertionError(f"{arguments} raises {error!r}") from error
        assert status in (0, 1, 2) and bool(err) == (status == 2), (arguments, status, err)
        assert "Traceback" not in err and "No such option" not in err, (arguments, err)


@pytest.mark.parametrize(("name", "parameter"), [case for case in CASES if kind(case.values[1]) is int])
def test_whole_numbers_have_limits(name, parameter):
    """A number that no machine word holds is refused by its option, whatever the command does with it."""
    status, err = run(*words(name, VALID.get(name, {}) | {parameter.name: str(1 << 64)}))
    assert status == 2 and option(parameter) in err
