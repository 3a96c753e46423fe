"""Markdown for the generated pages of the documentation."""

import re
from typing import Any


def table(titles: list[str], rows: list[list[Any]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def figure(picture: str, caption: str, kind: str = "wide") -> str:
    """A picture, by its path from the page's folder. `docs/_static/pages.css` has the kinds: "wide" and "small"."""
    alternative = caption.replace("`", "")
    return f"```{{figure}} {picture}\n:figclass: {kind}\n:alt: {alternative}\n\n{caption}\n```\n"


def folded(summary: str, text: str) -> str:
    """A text that is shown on a click."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n</details>\n"


def whole(text: str) -> str:
    """A text that is not broken into lines, such as a number with its unit."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def literal(text: str) -> str:
    """A plain text as Markdown: variables, patterns and options keep their characters."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_<>\[\]|])", r"\\\1", part).replace("--", "\\-\\-") for part in parts[::2]]
    return "`".join(parts)


def with_links(source: str) -> str:
    """A reference with its arXiv numbers as links."""
    return re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", literal(source))
