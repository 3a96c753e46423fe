"""ringroad: collective communication for NumPy arrays, with the algorithm that suits the network.

Run, in processes that a launcher started (torchrun, srun, mpirun) or on this machine alone:

    import ringroad

    with ringroad.init() as comm:                       # in every process
        total = comm.allreduce(array)

    with ringroad.local(4) as cluster:                  # in a script or a notebook
        totals = cluster.run(lambda comm: comm.allreduce(array))

Look, without a network: `Topology`, `Schedule`, `CostModel`, `algorithms`, `simulate`, and the same on the command line
(`python -m ringroad --help`).
"""

from typing import TYPE_CHECKING, Any

from ringroad._native import (
    AbortedError,
    Algorithm,
    Candidate,
    Communicator,
    ConfigError,
    Cost,
    CostModel,
    Explanation,
    FileStore,
    MemoryStore,
    MismatchError,
    PeerError,
    Profile,
    RingroadError,
    Schedule,
    ScheduleError,
    StoreError,
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
    "Profile",
    "RingroadError",
    "Schedule",
    "ScheduleError",
    "Simulation",
    "StoreError",
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
]


def __getattr__(name: str) -> Any:
    """Imports what starts processes when it is first used: `import torch` may import ringroad, and should not wait."""
    if name not in ("LocalCluster", "WorkerError", "local"):
        raise AttributeError(f"module 'ringroad' has no attribute {name!r}")
    from ringroad import cluster

    return getattr(cluster, name)


def __dir__() -> list[str]:
    return __all__
