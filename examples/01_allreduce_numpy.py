"""Sum NumPy arrays over four processes of this machine.

    python examples/01_allreduce_numpy.py

`ringroad.local` starts the processes and connects them. The function runs in each process, with a communicator that has
the process's rank. On a cluster the same function runs in processes that torchrun, srun or mpirun has started; there
`with ringroad.init() as comm:` makes the communicator.
"""

import numpy as np
import ringroad


def gradient_step(comm, learning_rate):
    """One step of data-parallel least squares: every rank has its own rows of the data."""
    random = np.random.default_rng(comm.rank)
    truth = np.array([1.0, -2.0, 3.0])
    rows = random.standard_normal((1000, 3))
    values = rows @ truth

    weights = np.zeros(3)
    for _ in range(50):
        gradient = rows.T @ (rows @ weights - values) / len(rows)
        comm.allreduce(gradient, gradient, op="avg")  # in place: the average over all ranks
        weights -= learning_rate * gradient
    return weights


with ringroad.local(4) as cluster:
    results = cluster.run(gradient_step, learning_rate=0.5)

print("weights on rank 0:", results[0].round(6))
print("the same bits on all ranks:", all(np.array_equal(weights, results[0]) for weights in results))
