"""The place where pip installed UCX."""

from importlib.util import find_spec
from pathlib import Path


def _ucx_wheel() -> str | None:
    """The `libucp.so.0` of the installed `libucx` wheel (`pip install libucx-cu12`), or None.

    This finds the package without importing it: an import would open the library.
    """
    spec = find_spec("libucx")
    for folder in (spec and spec.submodule_search_locations) or ():
        library = Path(folder, "lib", "libucp.so.0")
        if library.exists():
            return str(library)
    return None
