"""ringroad: collective communication for NumPy arrays, with the algorithm that suits the network.

Run, in processes that a launcher started (torchrun, srun, mpirun) or on this machine alone:

    import ringroad

    with ringroad.init() as comm:                       # in every process
        total = comm.allreduce(array)

    with ringroad.local(4) as cluster:                  # in a script or a notebook
        totals = cluster.run(lambda comm: comm.allreduce(array))

Look, without a network: `Topology`, `Schedule`, `CostModel`, `algorithms`, and the same on the command line
(`python -m ringroad --help`).
"""

from ringroad._native import (
    AbortedError,
    Algorithm,
    Candidate,
    Communicator,
    ConfigError,
    Cost,
    CostModel,
    FileStore,
    MemoryStore,
    MismatchError,
    PeerError,
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
)
from ringroad.bootstrap import init
from ringroad.cluster import LocalCluster, WorkerError, local

__all__ = [
    "AbortedError",
    "Algorithm",
    "Candidate",
    "Communicator",
    "ConfigError",
    "Cost",
    "CostModel",
    "FileStore",
    "LocalCluster",
    "MemoryStore",
    "MismatchError",
    "PeerError",
    "RingroadError",
    "Schedule",
    "ScheduleError",
    "StoreError",
    "TimeoutError",
    "Topology",
    "TopologyError",
    "TransportError",
    "Work",
    "WorkerError",
    "__version__",
    "algorithms",
    "init",
    "local",
]
