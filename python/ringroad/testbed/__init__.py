"""Emulated networks on this machine: hosts are namespaces, joined by cables of a given rate along a topology's links.

    from ringroad import testbed

    with testbed.emulate("torus:3x3", rate="100Mbit") as bed:
        totals = bed.run(lambda comm: comm.allreduce(array))

`wiring` reads hosts, cables and routes from a topology, and `placing` says which ranks run on which host; `namespaces`
makes hosts. `fabric` lays cables; packets then follow the topology's routes (`routed`), or switches are bridges
(`bridged`). `delay` and `traffic` start two programs, `relay` and `sender`: one delays packets, the other sends some.
`telling` is what ranks know of it. `network` is all of it, `events` change it at given times, and `cluster` runs ranks
on it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringroad.testbed.cluster import Testbed, emulate
    from ringroad.testbed.namespaces import TestbedError

__all__ = ["Testbed", "TestbedError", "emulate"]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """Imports everything on first use: the programs that delay and send packets need none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'ringroad.testbed' has no attribute {name!r}")
    from ringroad.testbed import cluster, namespaces

    return getattr(namespaces if name == "TestbedError" else cluster, name)
