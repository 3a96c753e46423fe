"""The heat equation on a plate that is cut into blocks, one for each rank, compared with one process's solution.

    python examples/07_heat_equation.py
    mpirun -n 4 --oversubscribe python examples/07_heat_equation.py    # beside mpi4py, in the same processes

A cell becomes a mean of itself and its neighbours, diagonal ones included. So each step needs the cells around a
block, corners too: `Cart.prepare_halo` fills them in one call.
"""

import argparse
import os
import time

import numpy as np
import ringroad


def plate(side):
    """A hot square on a plate that is cold around it. Left and right edge are joined, top and bottom are not."""
    cells = np.zeros((side, side))
    cells[side // 4 : side // 2, : side // 3] = 100.0
    return cells


def step(old, new):
    """Computes the cells of `new` that have all neighbours in `old`."""
    rows = sum(w * old[1 + dy : old.shape[0] - 1 + dy, :] for dy, w in zip((-1, 0, 1), (0.25, 0.5, 0.25), strict=True))
    new[1:-1, 1:-1] = 0.25 * rows[:, :-2] + 0.5 * rows[:, 1:-1] + 0.25 * rows[:, 2:]


def alone(side, steps):
    cells = plate(side)
    for _ in range(steps):
        old, new = np.pad(np.pad(cells, ((0, 0), (1, 1)), "wrap"), ((1, 1), (0, 0))), np.empty((side + 2, side + 2))
        step(old, new)
        cells = new[1:-1, 1:-1]
    return cells


def own_part(cart, side):
    """The rows and columns of this rank."""
    places = zip(cart.coordinates, cart.shape, strict=True)
    return tuple(slice(at * side // n, (at + 1) * side // n) for at, n in places)


def solve(blocks, fill, steps):
    """Computes the steps in two blocks in turn. Returns the last."""
    for number in range(steps):
        fill[number % 2]()
        step(blocks[number % 2], blocks[1 - number % 2])
    return blocks[steps % 2]


def with_ringroad(cart):
    return lambda block: cart.prepare_halo(block).run


def with_mpi4py(shape):
    """The usual way: columns first, then rows with the corners that have come; columns are packed."""
    from mpi4py import MPI

    cart = MPI.COMM_WORLD.Create_cart(shape, periods=(False, True))
    (up, down), (left, right) = cart.Shift(0, 1), cart.Shift(1, 1)

    def filler(block):
        sent, come = np.empty((2, len(block))), np.zeros((2, len(block)))

        def fill():
            sent[0], sent[1] = block[:, 1], block[:, -2]
            cart.Sendrecv(sent[0], left, 0, come[0], right, 0)
            cart.Sendrecv(sent[1], right, 0, come[1], left, 0)
            block[:, -1], block[:, 0] = come
            cart.Sendrecv(block[1], up, 0, block[-1], down, 0)
            cart.Sendrecv(block[-2], down, 0, block[0], up, 0)

        return fill

    return filler


def run(comm, side, steps, beside_mpi4py):
    """Solves it by each library in turn. Returns the grid's shape, and the shortest time of a step by each."""
    shape = comm.cart((0, 0)).shape
    cart = comm.cart(shape, periodic=(False, True))
    libraries = {"ringroad": with_ringroad(cart)} | ({"mpi4py": with_mpi4py(shape)} if beside_mpi4py else {})
    part = own_part(cart, side)
    expected = alone(side, steps)[part]
    times = dict.fromkeys(libraries, float("inf"))
    for _ in range(5):
        for name, filler in libraries.items():
            blocks = [np.pad(plate(side)[part], 1), np.pad(np.zeros_like(expected), 1)]
            fill = [filler(block) for block in blocks]
            comm.barrier()
            began = time.perf_counter()
            cells = solve(blocks, fill, steps)[1:-1, 1:-1]
            taken = float(comm.allreduce(time.perf_counter() - began, op="max"))
            times[name] = min(times[name], taken / steps)
            assert np.allclose(cells, expected), f"{name} differs from one process"
    return shape, times


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--side", type=int, default=96, help="rows and columns of the plate")
parser.add_argument("--steps", type=int, default=50)
options = parser.parse_args()
if "OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_SIZE" in os.environ:
    with ringroad.init() as comm:
        shape, times = run(comm, options.side, options.steps, beside_mpi4py=True)
        is_first = comm.rank == 0
else:
    with ringroad.local(4, timeout=60) as cluster:
        shape, times = cluster.run(run, options.side, options.steps, False)[0]
    is_first = True
if is_first:
    print(f"a plate of {options.side} x {options.side} on {shape[0]} x {shape[1]} ranks, as one process computes it")
    for name, seconds in times.items():
        print(f"{name:10} {seconds * 1e6:8.1f} us a step")
