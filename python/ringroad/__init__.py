"""ringroad: collective communication for NumPy arrays, with the fastest algorithm for the network.

To run collectives in processes that a launcher started (torchrun, srun, mpirun), or on this machine alone:

    import ringroad

    with ringroad.init() as comm:                       # in every process
        total = comm.allreduce(array)

    with ringroad.local(4) as cluster:                  # in a script or a notebook
        totals = cluster.run(lambda comm: comm.allreduce(array))

Algorithms and their costs need no network: `algorithms`, `Algorithm`, `CostModel`, `Schedule`, `ScheduleBuilder`.

The rooms:

- `ringroad.torch`: the backend of torch.distributed.
- `ringroad.measure`: what calls really take.
- `ringroad.results`: the classes of what calls return.
- `ringroad.testbed`: the same collectives on an emulated network.
- `ringroad.lab`: analysis that needs no network: simulation, synthesis, routes, training, formats, papers and pictures.

The command line has these, too (`ringroad --help`).

Examples in docstrings assume `import numpy as np` and `import ringroad`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringroad import lab as lab
    from ringroad import measure as measure
    from ringroad import results as results
    from ringroad import testbed as testbed
    from ringroad import torch as torch
    from ringroad._builder import ScheduleBuilder, ScheduleStep
    from ringroad._costs import Candidate, Cost, Explanation, FormatCost, Overview
    from ringroad._discovery import discover
    from ringroad._native import (
        ANY,
        PROC_NULL,
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
        testsome,
        waitall,
        waitany,
    )
    from ringroad._operations import Op
    from ringroad._replicas import ReplicaError
    from ringroad.start.elastic import elastic
    from ringroad.start.local import LocalCluster, WorkerError, local
    from ringroad.start.rendezvous import init, regroup

__all__ = [
    "ANY",
    "PROC_NULL",
    "AbortedError",
    "Algorithm",
    "Candidate",
    "Communicator",
    "ConfigError",
    "Cost",
    "CostModel",
    "Explanation",
    "FileStore",
    "FormatCost",
    "LocalCluster",
    "MemoryStore",
    "MismatchError",
    "Op",
    "Overview",
    "PeerError",
    "PreparedCall",
    "ReplicaError",
    "RingroadError",
    "Schedule",
    "ScheduleBuilder",
    "ScheduleError",
    "ScheduleStep",
    "StoreError",
    "TcpStore",
    "TimeoutError",
    "Topology",
    "TopologyError",
    "TransportError",
    "Work",
    "WorkerError",
    "__version__",
    "algorithms",
    "discover",
    "elastic",
    "handle",
    "init",
    "local",
    "regroup",
    "testsome",
    "waitall",
    "waitany",
]


_ELSEWHERE = {
    "Candidate": "_costs",
    "Cost": "_costs",
    "Explanation": "_costs",
    "FormatCost": "_costs",
    "LocalCluster": "start.local",
    "Op": "_operations",
    "Overview": "_costs",
    "ReplicaError": "_replicas",
    "ScheduleBuilder": "_builder",
    "ScheduleStep": "_builder",
    "WorkerError": "start.local",
    "discover": "_discovery",
    "elastic": "start.elastic",
    "init": "start.rendezvous",
    "local": "start.local",
    "regroup": "start.rendezvous",
}
"""The modules of what is not in `_native`."""
_EARLIER = {"NOBODY": "PROC_NULL"}
"""Earlier names, which still work."""
_ROOMS = ("lab", "measure", "results", "testbed", "torch")


def __getattr__(name: str) -> Any:
    """Imports everything on first use. `import torch` may import ringroad, and `ringroad --version` needs nothing of
    it, so both must be fast."""
    name = _EARLIER.get(name, name)
    if name in _ROOMS:
        return import_module(f"ringroad.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'ringroad' has no attribute {name!r}")
    value = getattr(import_module(f"ringroad.{_ELSEWHERE.get(name, '_native')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from importlib.util import find_spec

    return [*__all__, *(room for room in _ROOMS if room != "torch" or find_spec("torch"))]
