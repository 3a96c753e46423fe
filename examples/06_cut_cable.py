"""Train on an emulated torus, lose a cable in the middle, and go on without it (needs root or a user namespace).

The cable between ranks 0 and 1 is cut during an allreduce of gradients. Every rank raises an error within its deadline.
When the network has new routes around the cable, the ranks regroup by their handles, on the torus without the cable,
and use the best algorithm for that. No training is lost: the weights equal, bit for bit, those of a run in which the
network changed at the same step without a failure.
"""

import threading
import time

import numpy as np
import ringroad

NETWORK = "torus:3x3"
LEFT = ringroad.Topology("without(torus:3x3, 0-1)", bandwidth=25e6)  # bytes per second: 200 Mbit/s
STEPS = 600
FEATURES = 20_000
CARRIED = 5_000_000  # bytes after which the cable is cut, of some 20 million
NOTICED = 6.0  # seconds after which the network routes packets around it
LONG_ENOUGH = 4.0  # seconds that ranks wait for the new routes after an error


def gradient(rank: int, step: int, weights: np.ndarray) -> np.ndarray:
    """The gradient of the squared error on this rank's example of this step."""
    random = np.random.default_rng([rank, step])
    example = random.standard_normal(FEATURES, dtype=np.float32)
    return example * (example @ weights - example.sum()) / FEATURES


def train(comm, changed_at=None, algorithms=(None, None)):
    """Returns the weights, the first step after the change of the network, the error, and both algorithms.

    With arguments the network changes at step `changed_at` without a failure, and `algorithms` are used."""
    weights, last = np.zeros(FEATURES, np.float32), None
    algorithm, after = algorithms
    used = [algorithm or comm.algorithm_for("allreduce", 4 * FEATURES)]
    step, changed, raised = 0, None, None
    while step < STEPS:
        try:
            if step == changed_at:
                raise ringroad.AbortedError("the network changes")
            total = comm.allreduce(gradient(comm.rank, step, weights), algorithm=algorithm)
        except ringroad.RingroadError as error:
            raised = str(error)
            time.sleep(0 if step == changed_at else LONG_ENOUGH)
            comm = ringroad.regroup(comm.handles, topology=LEFT, timeout=60)
            algorithm = after
            used.append(algorithm or comm.algorithm_for("allreduce", 4 * FEATURES))
            # Some ranks may have finished the step that failed on others, so all ranks repeat it.
            first = int(comm.allreduce(np.array([step]), op="min")[0])
            if first < step:
                weights, step = last, first
            changed, changed_at = step, None
            continue
        last, weights = weights, weights - 0.5 * total / comm.size
        step += 1
    return weights, changed, raised, used


def disturb(bed) -> None:
    while bed.carried(0, 1) < CARRIED:
        time.sleep(0.05)
    bed.cut(0, 1)
    time.sleep(NOTICED)
    bed.reroute()


def main() -> None:
    with ringroad.testbed.emulate(NETWORK, rate="200Mbit", timeout=5) as bed:
        disturber = threading.Thread(target=disturb, args=(bed,))
        disturber.start()
        results = bed.run(train)
        disturber.join()
    _, changed, raised, algorithms = results[0]
    print(f"step {changed}: {raised}")
    print(f"by {algorithms[0]}, then on {LEFT.spec} by {algorithms[1]}")
    with ringroad.local(9, topology=NETWORK) as cluster:
        expected = cluster.run(train, changed, algorithms)[0][0]
    assert all((result[0] == expected).all() for result in results)
    print("all ranks have the bits of a run without a failure")


if __name__ == "__main__":
    main()
