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

from ringroad import formats as formats
from ringroad._builder import ScheduleBuilder, ScheduleStep
from ringroad._costs import Candidate, Cost, Explanation
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
from ringroad.finding import Findings, Network, find
from ringroad.simulation import Simulation, simulate

if TYPE_CHECKING:
    from ringroad.cluster import LocalCluster, WorkerError, local
    from ringroad.emulation.namespaces import TestbedError
    from ringroad.emulation.testbed import Testbed, testbed

__all__ = [
    "AbortedError",
    "Algorithm",
    "Candidate",
    "Communicator",
    "ConfigError",
    "Cost",
    "CostModel",
    "Explanation",
    "FileStore",
    "Findings",
    "LocalCluster",
    "MemoryStore",
    "MismatchError",
    "Network",
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
    "find",
    "handle",
    "init",
    "local",
    "regroup",
    "simulate",
    "testbed",
]


_LATER = {
    "LocalCluster": "cluster",
    "WorkerError": "cluster",
    "local": "cluster",
    "Testbed": "emulation.testbed",
    "TestbedError": "emulation.namespaces",
    "testbed": "emulation.testbed",
}


def __getattr__(name: str) -> Any:
    """Imports the modules that start processes on first use, because `import torch` may import ringroad and must be
    fast."""
    if name not in _LATER:
        raise AttributeError(f"module 'ringroad' has no attribute {name!r}")
    return getattr(import_module(f"ringroad.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return __all__
