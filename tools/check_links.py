"""Checks that the links of a site lead to its files, and their anchors to elements.

python tools/check_links.py docs/_build/html    # `make docs` does this
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

GIVEN = {"rust"}
"""Folders whose pages other programs have made: links into them count, links within them do not."""


class Page(HTMLParser):
    """The links of a page, and the names that links can lead to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.names.add(value)


parsed = cache(Page)


def broken(site: Path) -> list[str]:
    """The links that lead nowhere, each with its page."""
    found = []
    for file in sorted(site.rglob("*.html")):
        if file.relative_to(site).parts[0] in GIVEN:
            continue
        for link in parsed(file).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            path = path / "index.html" if path.is_dir() else path
            name = unquote(parts.fragment) if path.suffix == ".html" else ""
            if not path.exists() or (name and name not in parsed(path).names):
                found.append(f"{file.relative_to(site)}: {link}")
    return found


def main() -> None:
    site = Path(sys.argv[1]).resolve()
    pages = list(site.rglob("*.html"))
    if not pages:
        sys.exit(f"{site} has no pages")
    if lines := broken(site):
        sys.exit("\n".join([f"{len(lines)} links lead nowhere:", *lines]))
    print(f"all links of {len(pages)} pages lead somewhere")


if __name__ == "__main__":
    main()
