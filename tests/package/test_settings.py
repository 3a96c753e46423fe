"""The table of settings has all variables that are read, and all its variables are read."""

import re
import subprocess

import pytest
import ringroad
from helpers import ROOT
from ringroad._native import Config

TABLE = "rust/ringroad-runtime/src/config.rs"
INVENTED = {"RINGROAD_TIMOUT", "RINGROAD_TIMEOUTT", "RINGROAD_COFFEE", "RINGROAD_ALGOS"}
"""Names that do not exist, with which tests check the messages about them."""


def named(path):
    """The variables that a file names, except RINGROAD_TEST_*, which belong to the tests."""
    try:
        text = path.read_text()
    except (UnicodeDecodeError, IsADirectoryError):
        return set()
    return {name for name in re.findall(r"\bRINGROAD_[A-Z_]*[A-Z]\b", text) if not name.startswith("RINGROAD_TEST_")}


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no git to say which files are the project's")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_table_has_every_variable_that_is_named_and_no_other():
    table = {setting.name for setting in Config().settings}
    found = {name: named(ROOT / name) for name in tracked() if not name.startswith("tests/package/test_settings")}
    unknown = {name: sorted(names - table - INVENTED) for name, names in found.items() if names - table - INVENTED}
    assert not unknown, "files name variables that are not in the table"
    elsewhere = set().union(*(names for name, names in found.items() if name != TABLE))
    assert table <= elsewhere, "nothing says or tests what these do"


def test_python_leaves_the_environment_to_the_table():
    reads = re.compile(r"environ[^\n]*RINGROAD_")
    for path in (ROOT / "python").rglob("*.py"):
        assert not reads.search(path.read_text()), f"{path} reads a setting by itself"


def test_settings_as_arguments_come_before_the_environment(monkeypatch, refused):
    monkeypatch.setenv("RINGROAD_TIMEOUT", "77")
    monkeypatch.setenv("RINGROAD_PROFILE", "/etc/profile.json")
    assert (Config().timeout, Config().profile) == (77, "/etc/profile.json")
    config = Config({"RINGROAD_TIMEOUT": "5", "RINGROAD_PROFILE": ""})
    assert (config.timeout, config.profile) == (5, None)
    monkeypatch.delenv("RINGROAD_PROFILE")
    with ringroad.init(rank=0, size=1, settings={"RINGROAD_TIMEOUT": "5"}) as comm:
        assert comm.timeout == 5
    with refused(ringroad.ConfigError, "RINGROAD_TIMEOUT"):
        ringroad.init(rank=0, size=1, settings={"RINGROAD_TIMEOUT": "soon"})
    with refused(ValueError, "RINGROAD_TIMEOUT"):
        ringroad.init(rank=0, size=1, settings={"RINGROAD_TIMEOUTT": "5"})


def test_rows_say_all_there_is_to_a_setting():
    for setting in Config.defaults().settings:
        assert setting.help and setting.values and setting.origin == "default"
        assert setting.value == setting.default
    debug = next(setting for setting in Config.defaults().settings if setting.name == "RINGROAD_DEBUG")
    assert (debug.choices, debug.values) == (["WARN", "INFO", "TRACE"], "WARN, INFO or TRACE")
