"""ringroad: collective communication for NumPy arrays, with the fastest algorithm for the network.

To run collectives in processes that a launcher started (torchrun, srun, mpirun), or on this machine alone:

    import ringroad

    with ringroad.init() as comm:                       # in every process
        total = comm.allreduce(array)

    with ringroad.local(4) as cluster:                  # in a script or a notebook
        totals = cluster.run(lambda comm: comm.allreduce(array))

    with ringroad.testbed("torus:3x3", rate="100Mbit") as bed:      # the same on an emulated network
        totals = bed.run(lambda comm: comm.allreduce(array))

The analysis needs no network: `Topology`, `Schedule`, `CostModel`, `algorithms`, `simulate`. The command line has
them, too (`python -m ringroad --help`).

Examples in docstrings assume `import numpy as np` and `import ringroad`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringroad import formats as formats
    from ringroad._builder import ScheduleBuilder, ScheduleStep
    from ringroad._costs import Candidate, Cost, Explanation, Overview
    from ringroad._native import (
        AbortedError,
        Algorithm,
        Communicator,
        ConfigError,
        CostModel,
        FileStore,
        MemoryStore,
        MismatchError,
        PeerError,
        PreparedCall,
        Profile,
        RingroadError,
        Schedule,
        ScheduleError,
        StoreError,
        TcpStore,
        TimeoutError,
        Topology,
        TopologyError,
        TransportError,
        Work,
        __version__,
        algorithms,
        handle,
    )
    from ringroad.bootstrap import init, regroup
    from ringroad.cluster import LocalCluster, WorkerError, local
    from ringroad.discovery import DiscoveredLink, Discovery, discover
    from ringroad.emulation.namespaces import TestbedError
    from ringroad.emulation.testbed import Testbed, testbed
    from ringroad.finding import Findings, Network, find
    from ringroad.simulation import Simulation, simulate

__all__ = [
    "AbortedError",
    "Algorithm",
    "Candidate",
    "Communicator",
    "ConfigError",
    "Cost",
    "CostModel",
    "DiscoveredLink",
    "Discovery",
    "Explanation",
    "FileStore",
    "Findings",
    "LocalCluster",
    "MemoryStore",
    "MismatchError",
    "Network",
    "Overview",
    "PeerError",
    "PreparedCall",
    "Profile",
    "RingroadError",
    "Schedule",
    "ScheduleBuilder",
    "ScheduleError",
    "ScheduleStep",
    "Simulation",
    "StoreError",
    "TcpStore",
    "Testbed",
    "TestbedError",
    "TimeoutError",
    "Topology",
    "TopologyError",
    "TransportError",
    "Work",
    "WorkerError",
    "__version__",
    "algorithms",
    "discover",
    "find",
    "handle",
    "init",
    "local",
    "regroup",
    "simulate",
    "testbed",
]


_ELSEWHERE = {
    "Candidate": "_costs",
    "Cost": "_costs",
    "Explanation": "_costs",
    "DiscoveredLink": "discovery",
    "Discovery": "discovery",
    "Findings": "finding",
    "LocalCluster": "cluster",
    "Network": "finding",
    "Overview": "_costs",
    "ScheduleBuilder": "_builder",
    "ScheduleStep": "_builder",
    "Simulation": "simulation",
    "Testbed": "emulation.testbed",
    "TestbedError": "emulation.namespaces",
    "WorkerError": "cluster",
    "discover": "discovery",
    "find": "finding",
    "init": "bootstrap",
    "local": "cluster",
    "regroup": "bootstrap",
    "simulate": "simulation",
    "testbed": "emulation.testbed",
}
"""The modules of what is not in `_native`."""
_MODULES = ("bootstrap", "discovery", "finding", "formats", "simulation")


def __getattr__(name: str) -> Any:
    """Imports everything on first use. `import torch` may import ringroad, and `ringroad --version` needs nothing of
    it, so both must be fast."""
    if name in _MODULES:
        return import_module(f"ringroad.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'ringroad' has no attribute {name!r}")
    value = getattr(import_module(f"ringroad.{_ELSEWHERE.get(name, '_native')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
