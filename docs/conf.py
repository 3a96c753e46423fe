"""Sphinx: the pages of this directory, those that tools/pages.py generates, and Python's docstrings."""

import ast
import re
import sys
from pathlib import Path
from typing import Any

import ringroad

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import pages

DOCS = Path(__file__).parent
pages.write(DOCS / "generated", draw=not tags.has("check"))  # noqa: F821, by Sphinx

project = "ringroad"
version = release = ringroad.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

# Blocks without a language are text.
highlight_language = "text"

html_theme = "furo"
html_title = f"ringroad {ringroad.__version__}"
html_copy_source = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]

# Docstrings have code between single backticks, as Markdown has.
default_role = "code"
# `bytes`, the type, is also the name of a property.
suppress_warnings = ["ref.python"]
if tags.has("check"):  # noqa: F821
    suppress_warnings.append("image.not_readable")
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80

STUB = DOCS.parent / "python" / "ringroad" / "_native.pyi"


def typed_signatures() -> dict[str, tuple[str, str]]:
    """Parameters and result of the extension's functions and methods, by name. At run time they have no types."""
    found: dict[str, tuple[str, str]] = {}

    def note(name: str, function: ast.FunctionDef, bound: bool) -> None:
        arguments = function.args
        if bound:
            (arguments.posonlyargs or arguments.args).pop(0)
        result = ast.unparse(function.returns) if function.returns and not name.endswith("__new__") else ""
        # Of overloads the first one, a call that blocks, stands for all.
        found.setdefault(name.removesuffix(".__new__"), (f"({ast.unparse(arguments)})", result))

    for item in ast.parse(STUB.read_text()).body:
        if isinstance(item, ast.FunctionDef):
            note(item.name, item, bound=False)
        elif isinstance(item, ast.ClassDef):
            for inner in item.body:
                if isinstance(inner, ast.FunctionDef):
                    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in inner.decorator_list)
                    note(f"{item.name}.{inner.name}", inner, bound=not static)
    return found


SIGNATURES = typed_signatures()


def add_types(app: Any, what: str, name: str, obj: Any, options: Any, signature: Any, result: Any) -> Any:
    """Replaces the signature of what the extension defines."""
    member = name.removeprefix("ringroad.")
    outer = member.partition(".")[0]
    if what in ("class", "function", "method") and getattr(ringroad._native, outer, None) is getattr(
        ringroad, outer, False
    ):
        return SIGNATURES.get(member, (signature, result))
    return signature, result


def as_restructured_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with code between backticks or indented: marks the code, and escapes other markup."""
    text: list[str] = []
    in_code = False
    for line in lines:
        indented = line.startswith("    ")
        above = next((earlier for earlier in reversed(text) if earlier), "")
        if indented and not in_code and text and not text[-1] and not above.startswith("    "):
            in_code = True
            text += [] if above.endswith("::") else ["::", ""]
        elif line and not indented:
            in_code = False
        text.append(line if in_code or re.match(r"\s*(>>>|\.\.\.)", line) else _escaped(line))
    if what in ("attribute", "property"):
        # napoleon takes what stands before a colon for the type.
        kind = SIGNATURES.get(name.removeprefix("ringroad."), ("", ""))[1]
        text[0] = f"{kind}: {text[0]}"
    lines[:] = text


def _escaped(line: str) -> str:
    parts = line.split("`")
    parts[::2] = [re.sub(r"\*|_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    # napoleon splits entries at a colon, but not within double backticks. A pair may span lines.
    return ("``" if len(parts) % 2 else "`").join(parts)


def leave_out(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Fields of tuples and dataclasses are explained under Attributes."""
    return True if type(obj).__name__ in ("_tuplegetter", "member_descriptor") else None


def rebase(app: Any, name: str, source: list[str]) -> None:
    """Links to files of the repository that are pages lead to these pages."""
    if not name.startswith("generated/"):
        source[0] = pages.rebased(source[0], DOCS, DOCS)


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", add_types)
    # Before napoleon.
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)
    app.connect("autodoc-skip-member", leave_out)
    app.connect("source-read", rebase)
