"""Train while members come and go: two are killed, one joins, and one is cut off for a while and comes back.

    python examples/19_elastic.py

Four processes fit a linear model, each on its share of every batch. The parent kills two of them, starts another one,
and stops one for so long that the others take it for dead, as if its cable had been cut. Every time those that are left
repeat the step that failed, and newcomers get the weights of the others. At the end the losses of all steps are
compared with those of one process to which nothing happened.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import ringroad

STEPS, BATCH, FEATURES = 260, 120, 2000
EVENTS = {20: "kill", 45: "kill", 70: "start", 95: "cut"}  # by the step at which the parent sees to it
CUT = 11.0  # seconds: a member that is silent for 6 counts as lost


def examples(step: int) -> tuple[np.ndarray, np.ndarray]:
    """The batch of a step, which every member makes for itself."""
    inputs = np.random.default_rng(step).standard_normal((BATCH, FEATURES)) / FEATURES**0.5
    return inputs, inputs.sum(axis=1)


def gradient(weights: np.ndarray, step: int, part: slice) -> np.ndarray:
    """The sum of the gradients of some examples, and of their losses."""
    inputs, outputs = (one[part] for one in examples(step))
    errors = inputs @ weights - outputs
    return np.append(errors @ inputs, errors @ errors / BATCH)


def descend(weights: np.ndarray, total: np.ndarray) -> None:
    weights -= 0.5 * total[:-1]


def say(text: str) -> None:
    """Writes a line at once, since others write to the same pipe."""
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


def member(address: str, minimum: int | None) -> None:
    weights = np.zeros(FEATURES)

    def compute(comm: ringroad.Communicator) -> np.ndarray:
        time.sleep(0.03)  # as if it were more work
        return comm.allreduce(gradient(weights, group.step, slice(comm.rank, None, comm.size)))

    with ringroad.elastic(address, {"weights": weights}, minimum=minimum, timeout=3, patience=60) as group:
        while group.step < STEPS:
            if group.update() and group.rank == 0:
                say(f"step {group.step}: {group.size} members")
            total = group.run(compute, lambda total: descend(weights, total))
            say(f"{group.step - 1} {total[-1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--member", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        member(options.member[0], int(options.member[1]) or None)
        return

    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    reading, writing = os.pipe()

    def start(minimum: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, __file__, "--member", address, str(minimum)], stdout=writing)

    members = [start(4) for _ in range(4)]
    losses: dict[int, float] = {}
    with open(reading) as lines:
        for line in lines:
            if line.startswith("step"):
                print(line, end="", flush=True)
                continue
            step, loss = line.split()
            losses[int(step)] = float(loss)
            match EVENTS.pop(int(step), None):
                case "kill":
                    members.pop(0).kill()
                case "start":
                    members.append(start(0))
                case "cut":
                    members[0].send_signal(signal.SIGSTOP)
                    threading.Timer(CUT, members[0].send_signal, [signal.SIGCONT]).start()
            if int(step) == STEPS - 1 and writing:
                os.close(writing)  # the lines end when all members have
                writing = 0
    assert all(one.wait() == 0 for one in members)

    weights = np.zeros(FEATURES)
    for step in range(STEPS):
        total = gradient(weights, step, slice(None))
        assert abs(losses[step] - total[-1]) < 1e-9 * losses[0], f"step {step}: {losses[step]}, not {total[-1]}"
        descend(weights, total)
    print(f"loss {losses[0]:.4f} became {losses[STEPS - 1]:.2g} in {STEPS} steps, as if nothing had happened")


if __name__ == "__main__":
    main()
