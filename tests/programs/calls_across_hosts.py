"""Every collective by several algorithms. Prints the network, the transport and which algorithms are chosen."""

import json

import numpy as np
import ringroad

with ringroad.init(timeout=60) as comm:
    n, rank = comm.size, comm.rank
    algorithms = [None, "ring", "direct"]
    if comm.topology.startswith("hosts:"):
        algorithms += ["hierarchical", "hierarchical-latency"]
    for count in (0, 1, 7, 1000, 100_003):
        base = (np.arange(count) % 50).astype(np.float32)
        total = base * n + n * (n - 1) / 2
        for algorithm in algorithms:
            assert (comm.allreduce(base + rank, algorithm=algorithm) == total).all(), (count, algorithm)
        own = slice(rank * count, (rank + 1) * count)
        whole = np.tile(base, n)
        assert (comm.reduce_scatter(whole + rank) == (whole * n + n * (n - 1) / 2)[own]).all()
        gathered = comm.allgather(base + rank).reshape(n, count)
        assert all((gathered[r] == base + r).all() for r in range(n))
        for root in range(n):
            vector = base + 10 if rank == root else np.zeros_like(base)
            assert (comm.broadcast(vector, root=root) == base + 10).all()
            summed = comm.reduce(base + rank, root=root)
            assert rank != root or (summed == total).all()
        swapped = comm.alltoall(np.repeat(np.arange(n, dtype=np.float32) + 100 * rank, count))
        assert (swapped == np.repeat(100 * np.arange(n, dtype=np.float32) + rank, count)).all()
        comm.barrier()
    chosen = {comm.algorithm_for("allreduce", 1 << k) for k in range(3, 28)}
    print(json.dumps([comm.topology, str(comm.transport), sorted(chosen)]))
