"""Grids and graphs of ranks against NumPy: coordinates, exchanges of blocks, borders of arrays, and shared arrays."""

import gc
import itertools
import math
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
import ringroad
from helpers import failure_of, in_threads
from ringroad._grids import halo as halos
from ringroad._grids import placement

EMPTY = -1
"""What a border has before it is filled."""


def grids(seed, count):
    """Random grids of 1 to 3 dimensions and 1 to 9 ranks, periodic or not."""
    draw = random.Random(seed)
    shapes = [s for d in (1, 2, 3) for s in itertools.product(range(1, 10), repeat=d) if math.prod(s) <= 9]
    for _ in range(count):
        shape = draw.choice(shapes)
        yield shape, tuple(draw.random() < 0.5 for _ in shape), draw


def place_of(shape, rank):
    return tuple(int(c) for c in np.unravel_index(rank, shape))


def rank_at(shape, periodic, place):
    inside = all(around or 0 <= c < n for c, n, around in zip(place, shape, periodic, strict=True))
    return int(np.ravel_multi_index(place, shape, mode="wrap")) if inside else ringroad.PROC_NULL


def moved(place, dimension, steps):
    return tuple(c + steps * (index == dimension) for index, c in enumerate(place))


def check_cart(comm, shape, periodic):
    """Coordinates, shifts, and both exchanges, with every block another number."""
    cart = comm.cart(shape, periodic=periodic)
    place = place_of(shape, comm.rank)
    assert cart.coordinates == place and cart.rank_at(place) == comm.rank
    near = []
    for dimension in range(len(shape)):
        for steps in (-2, -1, 1, 3):
            there = [rank_at(shape, periodic, moved(place, dimension, by)) for by in (-steps, steps)]
            assert list(cart.shift(dimension, steps)) == there
        near += [rank_at(shape, periodic, moved(place, dimension, by)) for by in (-1, 1)]
    assert list(cart.destinations) == list(cart.sources) == near
    slots = len(near)
    block = lambda rank, slot: np.arange(6, dtype=np.float32).reshape(2, 3) + 100 * slot + 1000 * rank  # noqa: E731
    send = np.array([block(comm.rank, slot) for slot in range(slots)])
    for out in (None, np.full_like(send, EMPTY), np.full((slots, 2, 6), EMPTY, np.float32)[:, :, ::2]):
        missing = np.full((2, 3), 0 if out is None else EMPTY)
        # What comes from below was sent up.
        expected = [missing if peer == ringroad.PROC_NULL else block(peer, slot ^ 1) for slot, peer in enumerate(near)]
        got = cart.neighbour_alltoall(send, out)
        assert np.array_equal(got, expected) and (out is None or got is out)
        expected = [missing if peer == ringroad.PROC_NULL else block(peer, 0) for peer in near]
        work = cart.neighbour_allgather(block(comm.rank, 0), out, async_op=True)
        assert np.array_equal(work.result(), expected)
    check_rows(cart, [None if peer == ringroad.PROC_NULL else (peer, slot ^ 1) for slot, peer in enumerate(near)])


def test_carts():
    for shape, periodic, _ in grids(1, 15):
        in_threads(math.prod(shape), lambda comm, s=shape, p=periodic: check_cart(comm, s, p), timeout=60)


@pytest.mark.parametrize("transport", ["memory", "own"])
def test_processes(clusters, transport):
    cluster = clusters(4, transport)
    for shape, periodic in (((2, 2), (True, False)), ((4,), (True,))):
        cluster.run(check_cart, shape, periodic)
        cluster.run(check_halo, shape, periodic, "float64", 1, True, 3, [[2, 3, 4, 5][:n] for n in shape])


def check_graph(comm, edges, given):
    """`edges[r]` are the ranks to which rank r sends."""
    named = [sorted(s for s, to in enumerate(edges) for d in to if d == rank) for rank in range(comm.size)]
    is_mutual = all(sorted(to) == named[rank] for rank, to in enumerate(edges))
    sources = (edges if is_mutual else named)[comm.rank] if given is None else given[comm.rank]
    graph = comm.graph(edges[comm.rank], None if given is None else sources)
    assert (list(graph.destinations), list(graph.sources)) == (edges[comm.rank], sources)
    send = np.array([[comm.rank, slot] for slot in range(len(edges[comm.rank]))], "int16,int16" if given else "i8")
    seen = [0] * comm.size
    expected = []
    for source in sources:
        # The blocks between two ranks keep their order.
        slots = [slot for slot, to in enumerate(edges[source]) if to == comm.rank]
        expected.append([source, slots[seen[source]]])
        seen[source] += 1
    got = graph.neighbour_alltoall(send.reshape(len(edges[comm.rank]), 2))
    assert np.array_equal(got, np.array(expected, send.dtype).reshape(-1, 2))
    assert graph.neighbour_allgather(comm.rank).tolist() == sources
    check_rows(graph, expected)


def check_rows(graph, expected):
    """Blocks of different lengths. `expected`: of each source its rank and the number of its block; None for nobody."""
    count = lambda rank, slot: (3 * rank + slot) % 4  # noqa: E731
    counts = [count(graph.rank, slot) for slot in range(len(graph.destinations))]
    for row in ((), (3,)):
        send = np.repeat([graph.rank * 100 + slot for slot in range(len(counts))], counts).astype(np.int32)
        send = np.broadcast_to(send.reshape(-1, *[1] * len(row)), (len(send), *row))
        got = graph.neighbour_alltoallv(send, counts)
        for block, of in zip(got, expected, strict=True):
            rows, value = (0, 0) if of is None else (count(*of), of[0] * 100 + of[1])
            assert block.shape == (rows, *row) and block.dtype == np.int32 and (block == value).all()


def test_graphs():
    draw = random.Random(2)
    for turn in range(12):
        size = draw.randint(1, 9)
        edges = [[draw.randrange(size) for _ in range(draw.randint(0, 4))] for _ in range(size)]
        if turn % 3 == 0:  # an undirected graph
            pairs = {(s, d) for s, to in enumerate(edges) for d in to}
            edges = [
                draw.sample(to := sorted({d for s, d in pairs if s == r} | {s for s, d in pairs if d == r}), len(to))
                for r in range(size)
            ]
        sources = [sorted(s for s, to in enumerate(edges) for d in to if d == rank) for rank in range(size)]
        given = [draw.sample(of, len(of)) for of in sources] if turn % 2 else None
        in_threads(size, lambda comm, e=edges, g=given: check_graph(comm, e, g), timeout=60)


def check_halo(comm, shape, periodic, dtype, widths, corners, seed, lengths, order="C"):
    """Borders are those of the padded global array. `lengths[d]` are the ranks' own cells along dimension d."""
    cart = comm.cart(shape, periodic=periodic)
    wide = [widths] * len(shape) if isinstance(widths, int) else widths
    whole = np.random.default_rng(seed).integers(0, 100, [*map(sum, lengths), 2]).astype(dtype)
    padded = whole
    for dimension, (width, around) in enumerate(zip(wide, periodic, strict=True)):
        pad = [(width * (index == dimension),) * 2 for index in range(padded.ndim)]
        padded = np.pad(padded, pad, "wrap") if around else np.pad(padded, pad, constant_values=EMPTY)
    starts = [sum(some[:at]) for some, at in zip(lengths, cart.coordinates, strict=True)]
    own = [some[at] for some, at in zip(lengths, cart.coordinates, strict=True)]
    expected = padded[tuple(slice(a, a + n + 2 * w) for a, n, w in zip(starts, own, wide, strict=True))].copy()
    outside = sum(
        np.isin(np.arange(n + 2 * w), range(w, n + w), invert=True)
        .astype(int)
        .reshape([-1 if i == d else 1 for i in range(len(own))])
        for d, (n, w) in enumerate(zip(own, wide, strict=True))
    )
    if not corners:
        expected[outside > 1] = EMPTY
    start = np.where((outside == 0)[..., None], expected, np.array(EMPTY, dtype)).astype(dtype)
    block = np.array(start, order=order)
    if order == "strided":
        block = np.zeros([2 * n for n in start.shape], dtype)[tuple(slice(None, None, 2) for _ in start.shape)]
        block[...] = start
    assert cart.halo(block, widths, corners=corners) is block and np.array_equal(block, expected)
    halo = cart.prepare_halo(block, widths, corners=corners)
    for run in (halo.run, lambda: halo.start().result(), lambda: cart.halo(block, widths, corners=corners)):
        block[...] = start
        assert run() is block and np.array_equal(block, expected)
    return halo.costs


@pytest.mark.parametrize("along", [False, True])
def test_halos(monkeypatch, along):
    if along:
        monkeypatch.setattr(halos.Plan, "_costs", lambda plan: {halos.ALONG: 0.0})
    for shape, periodic, draw in grids(3 + along, 15):
        widths = draw.choice([1, [draw.randint(0, 2) for _ in shape]])
        lengths = [[draw.randint(2, 4) for _ in range(n)] for n in shape]
        dtype, order = draw.choice(["float64", "int8", "complex64", "longdouble", ">i4"]), draw.choice("CF")
        corners = draw.random() < 0.7
        arguments = (shape, periodic, dtype, widths, corners, draw.random().__hash__() % 100, lengths, order)
        in_threads(math.prod(shape), lambda comm, a=arguments: check_halo(comm, *a), timeout=60)


def test_halos_go_the_way_that_costs_less(monkeypatch):
    """A message for each neighbour, unless messages are slow."""
    arguments = ((2, 2), (True, True), "float32", 1, True, 1, [[3, 4], [5, 6]])
    for latency, way in (("0us", "at once"), ("9us", "along dimensions")):
        monkeypatch.setenv("RINGROAD_COST", f"step_latency=1us,message_latency={latency}")
        costs, *others = in_threads(4, lambda comm: check_halo(comm, *arguments), timeout=60)
        assert min(costs, key=costs.get) == way and others == [costs] * 3


def test_what_does_not_fit_is_refused():
    def errors(comm):
        cart = comm.cart((1, 2))
        yield lambda: comm.cart((2, 2)), "grid of shape"
        yield lambda: comm.cart((1, 2), periodic=[True]), "periodic must be"
        yield lambda: comm.cart((1, 2), periodic="no"), "periodic must be True or False for each of 2"
        yield lambda: comm.cart((1, 2), periodic=["no", "no"]), "periodic must be True or False for each of 2"
        yield lambda: cart.sub(["no", "yes"]), "keep must be True or False for each of 2"
        yield lambda: cart.halo(np.zeros((3, 3)), corners="no"), "corners must be a bool"
        yield lambda: cart.halo(np.zeros((3, 3)), timeout="1"), "timeout must be a number, not '1'"
        yield lambda: cart.neighbour_allgather(np.zeros(2, "V0")), "send has dtype |V0"
        yield lambda: cart.sub(True), "keep must be True or False for each of 2"
        yield lambda: comm.graph([1 - comm.rank]).cost("1 MB/s"), "1 MB/s"
        yield lambda: cart.neighbour_alltoall(np.zeros((3, 2))), "a block for each of 4"
        yield lambda: cart.neighbour_alltoall(np.zeros((4, 2)), np.zeros((4, 3))), "out must be float64"
        yield lambda: cart.neighbour_allgather(np.array([None])), "send has dtype object"
        yield lambda: cart.halo(np.zeros(4)), "at least 2 dimensions"
        yield lambda: cart.halo(np.zeros((4, 4)), [1, 2, 3]), "width must be"
        # All ranks learn of these, and go on.
        yield lambda: cart.halo(np.zeros((4 + comm.rank, 4))), "ranks 0 and 1 have the same coordinate in dimension 0"
        yield lambda: cart.halo(np.zeros((4, 4), ["f4", "f8"][comm.rank])), "different dtypes"
        yield lambda: cart.halo(np.zeros((4, 2 + comm.rank))), "rank 0 has 2 cells in dimension 1"
        yield lambda: comm.graph([comm.rank, 2 * comm.rank]), "rank 1 names rank 2"
        yield lambda: comm.graph([0], [comm.rank]), "rank 0 wants to receive from"
        yield (
            lambda: comm.shared(3, f"{'iu'[comm.rank]}1,f4"),
            "ranks 0 and 1 are on one host but want different arrays",
        )
        yield lambda: comm.shared(3 + comm.rank), "ranks 0 and 1 are on one host but want different arrays"

    def check(comm):
        for call, words in errors(comm):
            kind, text = failure_of(call)
            assert kind in ("ValueError", "TypeError") and words in text, (words, kind, text)
        return comm.allreduce(1).item()

    assert in_threads(2, check, timeout=60) == [2, 2]


GRIDS = {
    "other lengths": (lambda c: c.cart((1, 4)), lambda c: c.cart((4, 1)), "cart 1x4", "cart 4x1"),
    "ends that meet": (lambda c: c.cart(4), lambda c: c.cart(4, periodic=True), "cart 4", "cart 4~"),
    "edges that cross": (
        lambda c: c.graph([c.rank ^ 1]),
        lambda c: c.graph([c.rank ^ 2]),
        "graph of 4 ",
        "graph of 4 ",
    ),
    "twice the edges": (
        lambda c: c.graph([c.rank ^ 1] * 2),
        lambda c: c.graph([c.rank ^ 1]),
        "of 8 edges",
        "of 4 edges",
    ),
    "another order": (
        lambda c: c.graph([c.rank ^ 1, c.rank ^ 2]),
        lambda c: c.graph([c.rank ^ 2, c.rank ^ 1]),
        "graph of 8 ",
        "graph of 8 ",
    ),
    "a grid and a graph": (lambda c: c.cart(4, periodic=True), lambda c: c.graph([c.rank ^ 1] * 2), "cart 4~", "graph"),
}
EXCHANGES = {
    # The lengths agree where one grid has twice the edges.
    "alltoall": lambda grid, n: grid.neighbour_alltoall(np.zeros((len(grid.destinations), n))),
    "allgather": lambda grid, n: grid.neighbour_allgather(np.zeros(n)),
    "alltoallv": lambda grid, n: grid.neighbour_alltoallv(
        np.zeros(len(grid.destinations)), [1] * len(grid.destinations)
    ),
    "halo": lambda grid, n: grid.halo(np.zeros([6] * len(grid.shape))),
}


@pytest.mark.parametrize(
    ("pair", "call"),
    [(pair, call) for pair, grids in GRIDS.items() for call in EXCHANGES if call != "halo" or "cart" in grids[3]],
)
def test_exchanges_on_different_grids_are_different_calls(pair, call):
    *makers, one, other = GRIDS[pair]

    def run(comm):
        odd = comm.rank != 0
        grid = [make(comm) for make in makers][odd]
        for _ in range(3):  # ranks that have no other neighbours hear of it in a later call
            EXCHANGES[call](grid, 4 // (1 + ("twice" in pair and not odd)))
            comm.barrier()

    for kind, text in in_threads(4, lambda comm: failure_of(lambda: run(comm)), timeout=60):
        # A rank that hears of it between two calls raises AbortedError with this text; a rank that is late has no row.
        rows = dict(re.findall(r"rank (\d).*: .*?((?:cart|graph of) [^'\n]*)", text))
        assert kind in ("MismatchError", "AbortedError") and len(set(rows.values())) == 2, text
        assert all((one if rank == "0" else other) in name for rank, name in rows.items()), text


@pytest.mark.parametrize("other", [lambda c: c.cart((4, 1), reorder=True), lambda c: c.broadcast_object("a text")])
def test_placement_of_a_grid_is_a_call_of_its_own(other):
    def run(comm):
        (other if comm.rank == 0 else lambda c: c.cart((2, 2), reorder=True))(comm)
        comm.barrier()

    for kind, text in in_threads(4, lambda comm: failure_of(lambda: run(comm)), timeout=60):
        assert kind in ("MismatchError", "AbortedError") and "cart 2x2" in text, (kind, text)


def test_shapes_are_completed():
    for size, shape, expected in ((12, (0, 0), (4, 3)), (24, (0, 2, 0), (4, 2, 3)), (7, (0, 0), (7, 1)), (8, 0, (8,))):
        comms = ringroad.Communicator.in_process(size)
        assert comms[0].cart(shape).shape == expected


def test_parts_of_grids():
    def rows(comm):
        with comm.cart((2, 3), periodic=(False, True)).sub((False, True)) as row:
            return row.shape, row.periodic, row.comm.allgather(comm.rank).tolist(), row.shift(0, 1)

    first, *_, last = in_threads(6, rows, timeout=60)
    assert first == ((3,), (True,), [0, 1, 2], (2, 1)) and last == ((3,), (True,), [3, 4, 5], (1, 0))


def test_placement():
    """On a torus with turned dimensions, neighbours are neighbours there; hosts get boxes."""

    def hops(comm, reorder):
        with comm.cart((4, 2), periodic=True, reorder=reorder) as cart:
            assert cart.neighbour_allgather(cart.rank).tolist() == list(cart.sources)
            return cart.cost(1 << 20).hops

    for reorder, most in ((False, 3), (True, 1)):
        found = in_threads(
            8, lambda comm, r=reorder: hops(comm, r), topology="torus:2x4,latency=1us,bandwidth=1GB/s", timeout=60
        )
        assert set(found) == {most}, found
    network = "hosts:4x4,bandwidth=1GB/s,latency=1us"
    (comm, *_) = ringroad.Communicator.in_process(16, topology=network)
    cart = comm.cart((4, 4))
    schedule = ringroad.Schedule.build("direct", 16, "alltoall")

    def seconds(way):
        blocks = placement._placed(cart._edges, way)
        return ringroad.CostModel().cost(schedule, network, 1 << 20, blocks=blocks).seconds

    ways = list(placement._by_hosts(placement._hosts(ringroad.Topology(network).hosts), cart.shape))
    boxes = np.array(min(ways, key=seconds)).reshape(4, 4) // 4
    assert boxes.tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]]
    assert all(sorted(way) == list(range(16)) for way in ways) and len(ways) == 3


def test_others_get_no_messages():
    def peers(comm):
        cart = comm.cart((2, 4))
        block = np.zeros((4, 5))
        cart.halo(block, corners=False)
        with ringroad.measure.trace(comm) as trace:
            cart.halo(block, corners=False)
        sent = {event.peer for event in trace.events if event.kind == "send" and event.rank == comm.rank}
        return sent, set(cart.sources) - {ringroad.PROC_NULL}

    for found, near in in_threads(8, peers, timeout=60):
        assert found == near


def open_files():
    """How many descriptors this process has of shared arrays."""
    links = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum("ringroad-shared" in link for link in links)


def check_shared(comm):
    array = comm.shared((comm.size, 3), "int32")
    assert not array.any() and (array.shape, array.dtype) == ((comm.size, 3), np.int32)
    comm.barrier()
    array[comm.rank] = comm.rank + 1
    comm.barrier()
    assert (array == np.arange(1, comm.size + 1)[:, None]).all()
    assert open_files() == 1, "mmap has one of its own"
    comm.barrier()
    # It outlives the array of the rank that made it, and goes with the last view.
    view = array[:, 1:]
    del array
    if comm.rank > 0:
        comm.recv(np.zeros(1), 0)
        assert view[-1].tolist() == [comm.size] * 2
    del view
    gc.collect()
    for peer in range(1, comm.size if comm.rank == 0 else 0):
        comm.send(np.zeros(1), peer)
    assert open_files() == 0 and "ringroad-shared" not in Path("/proc/self/maps").read_text()
    assert comm.shared(()).shape == () and comm.shared((2, 0)).size == 0


@pytest.mark.parametrize("transport", ["memory", "own"])
def test_shared_arrays(clusters, transport):
    clusters(4, transport).run(check_shared)
