"""Whatever is public says at run time what it is for, and the examples in docstrings work."""

import ast
import dataclasses
import doctest
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import numpy as np
import pages
import pytest
import ringroad
import stubs
from helpers import needs_testbed
from ringroad import _native
from ringroad import _oracle as oracle

COLLECTIVES = [*oracle.COLLECTIVES, "allreduce_coalesced", "broadcast_coalesced"]
ERRORS = ["TypeError", "ValueError", "MismatchError", "TimeoutError", "PeerError", "AbortedError", "MemoryError"]
IMPORTANT = [
    "init",
    "local",
    "testbed.emulate",
    "lab.simulate",
    "lab.find",
    "regroup",
    "Topology",
    "Schedule",
    "Algorithm",
    "CostModel",
]


@dataclass(frozen=True)
class Member:
    """A class, a function, a method or a property, by the name under which users find it."""

    name: str
    what: Any

    @property
    def docstring(self) -> str:
        return inspect.cleandoc(getattr(self.what, "__doc__", None) or "")

    @property
    def parameters(self) -> list[str]:
        """Those that a caller passes."""
        if not callable(self.what):
            return []
        if inspect.isclass(self.what):
            own = "__init__" in vars(self.what) or "__new__" in vars(self.what)
            if not own or fields(self.what) or issubclass(self.what, BaseException):
                return []
        names = list(inspect.signature(self.what).parameters)
        return [name for name in names if name != "self" and not name.startswith("_")]


def modules() -> Iterator[ModuleType]:
    """What users import."""
    yield from (ringroad, *pages.modules())


@cache
def members() -> list[Member]:
    """All that is public, each once."""
    found: dict[int, Member] = {}
    for module in modules():
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for name in names:
            try:
                what = getattr(module, name)
            except ModuleNotFoundError as missing:
                if missing.name != "torch":  # the one package that names wait for until they are used
                    raise
                continue
            listed = hasattr(module, "__all__") or getattr(what, "__module__", None) == module.__name__
            if listed and (inspect.isclass(what) or callable(what)):
                found.setdefault(id(what), Member(f"{module.__name__}.{name}", what))
    return [*found.values(), *(inner for member in found.values() for inner in attributes(member))]


def internal() -> list[Member]:
    """What only the package calls of the extension; the functions of the package explain the arguments."""
    known = {id(member.what) for member in members()}
    names = [name for name, what in vars(_native).items() if not name.startswith("_") and callable(what)]
    return [Member(f"_native.{name}", vars(_native)[name]) for name in names if id(vars(_native)[name]) not in known]


def attributes(member: Member) -> Iterator[Member]:
    if not inspect.isclass(member.what):
        return
    for name, what in vars(member.what).items():
        if name.startswith("_") or name in fields(member.what):
            continue
        if isinstance(what, staticmethod | classmethod):
            what = getattr(member.what, name)
        if callable(what) or isinstance(what, property | cached_property) or inspect.isgetsetdescriptor(what):
            yield Member(f"{member.name}.{name}", what)


def fields(kind: type) -> set[str]:
    """Of a dataclass, or a named tuple."""
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")}
    return set(getattr(kind, "_fields", ()))


def entries(docstring: str, section: str) -> set[str]:
    """The names that a section explains."""
    lines = docstring.splitlines()
    if f"{section}:" not in lines:
        return set()
    names = set()
    for line in lines[lines.index(f"{section}:") + 1 :]:
        if line and not line.startswith("    "):
            break
        if line.startswith("    ") and not line.startswith("     "):
            names.add(line.strip().partition(":")[0])
    return names


def described(name: str) -> Member:
    return next(member for member in members() if member.name == name)


def test_members_are_found():
    names = {member.name for member in members()}
    constants = {"__version__", *pages.CONSTANTS}
    assert {f"ringroad.{name}" for name in ringroad.__all__ if name not in constants} <= names
    assert {"ringroad.Communicator.allreduce", "ringroad.Schedule.df", "ringroad.lab.routes.Routes.path"} <= names
    assert len(names) > 400


def test_everything_has_a_docstring():
    assert [member.name for member in [*members(), *internal()] if not member.docstring] == []
    assert [module.__name__ for module in modules() if not module.__doc__] == []


def test_docstrings_begin_with_a_sentence():
    assert [m.name for m in members() if not m.docstring.partition("\n\n")[0].rstrip().endswith(".")] == []


def test_all_arguments_are_explained():
    missing = {m.name: sorted(set(m.parameters) - entries(m.docstring, "Args")) for m in members()}
    assert {name: arguments for name, arguments in missing.items() if arguments} == {}


def test_no_other_arguments_are_explained():
    spare = {m.name: sorted(entries(m.docstring, "Args") - set(m.parameters)) for m in members()}
    assert {name: arguments for name, arguments in spare.items() if arguments} == {}


def test_all_fields_are_explained():
    """Those of a base are explained there."""
    classes = [member for member in members() if inspect.isclass(member.what)]
    own = {m: fields(m.what).difference(*map(fields, m.what.__bases__)) for m in classes}
    missing = {m.name: sorted(own[m] - entries(m.docstring, "Attributes")) for m in classes}
    assert {name: names for name, names in missing.items() if names} == {}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_name_their_errors_and_have_an_example(name):
    docstring = described(f"ringroad.Communicator.{name}").docstring
    assert {*ERRORS, "ScheduleError"} <= entries(docstring, "Raises")
    assert f".{name}(" in docstring.partition("\nExample:\n")[2]


@pytest.mark.parametrize("name", ["send", "recv", "barrier"])
def test_messages_name_their_errors_and_have_an_example(name):
    docstring = described(f"ringroad.Communicator.{name}").docstring
    assert set(ERRORS) - {"TypeError"} <= entries(docstring, "Raises")
    assert f".{name}(" in docstring.partition("\nExample:\n")[2]


@pytest.mark.parametrize("name", IMPORTANT)
def test_what_is_important_has_an_example(name):
    assert ">>> " in described(f"ringroad.{name}").docstring.partition("\nExample:\n")[2]


EXAMPLES = [member for member in [*members(), *internal()] if ">>> " in member.docstring]


@pytest.mark.parametrize("member", EXAMPLES, ids=lambda member: member.name)
def test_example(member, tmp_path, monkeypatch):
    if member.name == "ringroad.testbed.emulate":
        needs_testbed()
    for needed in ("networkx", "pandas", "torch", "matplotlib"):
        if f"import {needed}" in member.docstring:
            pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(
        member.docstring, {"np": np, "ringroad": ringroad}, member.name, None, 0
    )
    assert not any(one.options for one in example.examples), "an example says everything that it prints"
    report: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=0).run(example, out=report.append)
    assert tried and not failed, "".join(report)


def test_packages_have_a_stub_with_the_docstrings():
    types = stubs.STUB.read_text()
    documented = stubs.with_docstrings(types, _native)
    (communicator,) = (one for one in ast.parse(documented).body if getattr(one, "name", "") == "Communicator")
    allreduce, *_ = (one for one in communicator.body if getattr(one, "name", "") == "allreduce")
    for item, owner in ((communicator, _native.Communicator), (allreduce, _native.Communicator.allreduce)):
        assert ast.get_docstring(item) == inspect.cleandoc(owner.__doc__)
    # In the repository it has none.
    assert ast.dump(ast.parse(stubs.without_docstrings(documented))) == ast.dump(ast.parse(types))
