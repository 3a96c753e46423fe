"""The extension's stub holds types. This adds the extension's docstrings for packages, where editors show them.

python tools/stubs.py            # adds them to python/ringroad/_native.pyi
python tools/stubs.py --remove   # leaves the types
"""

import ast
import sys
from pathlib import Path
from textwrap import indent
from types import ModuleType

STUB = Path(__file__).parent.parent / "python" / "ringroad" / "_native.pyi"

Item = ast.ClassDef | ast.FunctionDef


def with_docstrings(stub: str, module: ModuleType) -> str:
    """The text of a stub with the docstrings that the module's members have at run time."""
    lines = stub.splitlines()
    for item, docstring in reversed(list(_documented(ast.parse(stub).body, module))):
        _put(lines, item, docstring)
    return "\n".join(lines) + "\n"


def without_docstrings(stub: str) -> str:
    """The text of a stub with nothing but types."""
    lines = stub.splitlines()
    items = [one for one in ast.walk(ast.parse(stub)) if isinstance(one, Item) and ast.get_docstring(one) is not None]
    for item in sorted(items, key=lambda one: one.lineno, reverse=True):
        _put(lines, item, "")
    return "\n".join(lines) + "\n"


def _documented(body: list[ast.stmt], owner: object) -> list[tuple[Item, str]]:
    """Classes and functions with their docstrings, in the order of the file. Of overloads only the first has one."""
    found: list[tuple[Item, str]] = []
    seen: set[str] = set()
    for item in body:
        if not isinstance(item, Item) or not (member := getattr(owner, item.name, None)):
            continue
        special = item.name.startswith("__")
        found.append((item, "" if special or item.name in seen else (member.__doc__ or "").strip()))
        seen.add(item.name)
        if isinstance(item, ast.ClassDef):
            found += _documented(item.body, member)
    return found


def _put(lines: list[str], item: Item, docstring: str) -> None:
    """Replaces an item's docstring. Its other lines stay, but for an empty body."""
    first, last = item.body[0], item.end_lineno or 0
    others = item.body[1:] if _is_filler(first) else item.body
    header = lines[: first.lineno] if _is_filler(first) else lines[: _begin(first)]
    if _is_filler(first):
        header[-1] = header[-1][: first.col_offset].rstrip()
    if not header[-1]:
        header.pop()
    rest = lines[_begin(others[0]) : last] if others else []
    spaces = " " * (item.col_offset + 4)
    if docstring:
        end = "\n" if "\n" in docstring else ""
        text = indent(f'"""{_escaped(docstring)}{end}"""', spaces).splitlines()
        rest = [*text, *([""] if rest else []), *rest]
    elif not rest:
        header[-1] += " ..."
    lines[:last] = header + rest


def _begin(statement: ast.stmt) -> int:
    """The number of lines before a statement and its decorators."""
    return statement.lineno - len(getattr(statement, "decorator_list", [])) - 1


def _is_filler(statement: ast.stmt) -> bool:
    """Whether it is a docstring, or `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"""')


def main() -> None:
    text = without_docstrings(STUB.read_text())
    if "--remove" not in sys.argv:
        from ringroad import _native

        text = with_docstrings(text, _native)
    STUB.write_text(text)


if __name__ == "__main__":
    main()
