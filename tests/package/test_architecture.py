"""The order of the package's rooms: what a module may import. CONTRIBUTING says where things belong."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pages
import ringroad

PACKAGE = Path(ringroad.__file__).parent

LIBRARY, FACADE = "library", "ringroad"
ROOMS = [
    "_native",
    "_support",
    LIBRARY,
    "_grids",
    "_status",
    "start",
    "results",
    "testbed",
    "torch",
    "measure",
    "doctor",
    "lab",
    FACADE,
    "cli",
]
"""A room may import itself and those before it. The library is what is in no room. The facade is `ringroad` itself,
which offers names of the others on first use; nothing but the command line imports it."""


def name_of(path: Path) -> str:
    """The name of a module below `ringroad`; "" for the facade."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    first = module.partition(".")[0]
    if not first:
        return FACADE
    return "cli" if first == "__main__" else first if first in ROOMS else LIBRARY


def imported(path: Path) -> Iterator[str]:
    """The modules of the package that a module imports anywhere, also in functions and for annotations only."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "ringroad":
                yield module_of(rest)


def module_of(name: str) -> str:
    """The module that has a name: "lab.viz.timeline" may be a module, or a function of "lab.viz"."""
    if name.partition(".")[0] == "_native":
        return "_native"
    while name not in MODULES:
        name = name.rpartition(".")[0]
    return name


IMPORTS = {module: set(imported(path)) - {module} for module, path in MODULES.items()}


def test_rooms_import_only_those_before_them():
    wrong = [
        f"{module} imports {other or FACADE}"
        for module, others in IMPORTS.items()
        for other in others
        if ROOMS.index(room_of(other)) > ROOMS.index(room_of(module)) or (other == "" and room_of(module) != "cli")
    ]
    assert wrong == []


def test_modules_import_each_other_in_no_cycle():
    left = dict(IMPORTS)
    while free := [module for module, others in left.items() if not others & left.keys()]:
        for module in free:
            del left[module]
    assert left == {}


def test_only_the_laboratory_of_the_extension_needs_the_laboratory():
    """The rest of the extension calls no Python beyond the library and its rooms."""
    rust = PACKAGE.parent.parent / "rust" / "ringroad-py" / "src"
    named: dict[bool, set[str]] = {True: set(), False: set()}
    for file in rust.rglob("*.rs"):
        code = re.sub(r"^ *///.*", "", file.read_text(), flags=re.MULTILINE)
        named["lab" in file.parts] |= set(re.findall(r'"ringroad\.([\w.]+)"', code))
        assert "lab" in file.parts or "ringroad_lab" not in code, file
    assert all(name.startswith("lab.") and name in MODULES for name in named[True]), named[True]
    beyond = ROOMS[ROOMS.index("doctor") :]
    assert named[True] and named[False] and not [name for name in named[False] if room_of(name) in beyond], named[False]


def test_calls_need_nothing_of_the_laboratory():
    code = (
        "import sys, numpy, ringroad\n"
        "comm = ringroad.Communicator.in_process(1)[0]\n"
        "comm.allreduce(numpy.ones(4)), comm.explain('allreduce', 8), comm.cart(1), ringroad.CostModel()\n"
        "print([name for name in sys.modules if name.startswith(('ringroad.lab', 'ringroad.cli'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_public_name_has_one_path():
    """No two of the modules that users import offer the same thing."""
    found: dict[int, str] = {}
    for module in (ringroad, *pages.modules()):
        for name in module.__all__:
            path = f"{module.__name__}.{name}"
            assert found.setdefault(id(getattr(module, name)), path) == path


def test_modules_list_what_they_offer():
    """`dir`, and so completion, has no helpers and nothing that a module imports; all of it is there."""
    rooms = {"ringroad": ringroad._ROOMS, "ringroad.lab": ringroad.lab._ROOMS}
    for module in (ringroad, *pages.modules()):
        expected = {*module.__all__, *rooms.get(module.__name__, ())}
        assert set(dir(module)) == {name for name in expected if name != "torch" or find_spec("torch")}, module
        assert all(hasattr(module, name) for name in dir(module)), module
        defined = {name for name, what in vars(module).items() if getattr(what, "__module__", "") == module.__name__}
        assert {name for name in defined if name[0] != "_"} <= set(dir(module)), module
