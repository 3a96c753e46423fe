"""Communicators of threads, without processes and without UCX."""

import threading

import ml_dtypes
import numpy as np
import pytest
import ringroad
from helpers import FULL, PAIRS, Case, cases, check_cases, digest, in_threads, run_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ringroad._oracle import COLLECTIVES, DTYPES


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7] if FULL else [1, 4])
def test_matches_numpy(ranks, collective):
    many = list(cases(collective, ranks, sizes=[0, 1, 2, ranks, ranks + 1, 500]))
    in_threads(ranks, lambda comm: check_cases(comm, many), timeout=60)


# Rust's tests run all algorithms on all kinds of networks.
NETWORKS = ["hyperx:3x4", "fattree:3x4"]
MORE = ["ring:27", "torus:3x3x3", "ring:64", "torus:4x4x4", "mesh:2x3x2", "twisted-torus:2x4", "hammingmesh:2x2:2x1"]


@pytest.mark.parametrize("topology", NETWORKS + (MORE if FULL else []))
def test_every_family_on_many_ranks(topology):
    """Every member of every family (for 64 ranks, one per family), with all types in turn. The bit-identical ones give
    every rank the same bits.
    """
    ranks = ringroad.Topology(topology).ranks
    families: dict[str, list[ringroad.lab.Algorithm]] = {}
    for algorithm in ringroad.lab.algorithms(topology):
        families.setdefault(algorithm.name.partition(":")[0], []).append(algorithm)
    # Every rank packs the trees again, all in this process, so networks are small and pipelines short.
    for name in ("trees", "weighted-trees", "spanning-trees"):
        families[name] = families.get(name, [])[: ranks <= 16]
    performed = [
        (algorithm, collective)
        for members in families.values()
        for algorithm in (members if ranks <= 27 else members[:1])
        for collective in algorithm.collectives
        if algorithm.supports(topology, collective)
    ]
    many = [
        Case(
            collective,
            3 if collective == "alltoall" else 67,
            DTYPES[number % len(DTYPES)],
            "sum",
            number * 7 % ranks,
            ["new", "out", "in place"][number % 3],
            algorithm.name,
            number,
        )
        for number, (algorithm, collective) in enumerate(performed)
    ]
    options = {"topology": topology, "algorithm": "ring,binomial,pairwise", "timeout": 60}
    digests = in_threads(ranks, lambda comm: check_cases(comm, many), **options)
    for index, (algorithm, collective) in enumerate(performed):
        if collective == "allreduce" and algorithm.bit_identical(topology):
            assert len({row[index] for row in digests}) == 1, many[index]


@settings(
    max_examples=60 if FULL else 30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    ranks=st.integers(1, 9),
    count=st.integers(0, 700),
    pair=st.sampled_from(PAIRS),
    placement=st.sampled_from(["new", "out", "in place"]),
    algorithm=st.sampled_from([None, "ring", "recursive-doubling", "halving-doubling", "swing", "trivance"]),
    seed=st.integers(0, 1 << 30),
)
def test_allreduce_of_anything(ranks, count, pair, placement, algorithm, seed):
    case = Case("allreduce", count, *pair, 0, placement, algorithm, seed)
    results = in_threads(ranks, lambda comm: digest(run_case(comm, case)), timeout=60)
    assert len(set(results)) == 1, "the ranks' results differ in their bits"


def test_messages():
    def work(comm):
        out = np.empty(3, ml_dtypes.bfloat16)
        if comm.rank == 0:
            comm.send(np.arange(3).astype(ml_dtypes.bfloat16), 1, tag=7)
            return comm.recv(out, 1).tolist()
        comm.recv(out, 0, tag=7)
        comm.send(out * out, 0)
        return out.tolist()

    assert in_threads(2, work, timeout=60) == [[0, 1, 4], [0, 1, 2]]


def test_communicators_are_released_from_many_threads():
    """Several threads use and release several communicators at once."""
    groups = [ringroad.Communicator.in_process(3, timeout=60) for _ in range(4)]
    totals = []

    def work(comm, value):
        for _ in range(50):
            value = comm.allreduce(np.array([value]))[0] / 3
        totals.append(value)

    threads = [
        threading.Thread(target=work, args=(comm, float(index))) for index, group in enumerate(groups) for comm in group
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(totals) == [0.0] * 3 + [1.0] * 3 + [2.0] * 3 + [3.0] * 3


def test_context_manager_closes():
    (comm,) = ringroad.Communicator.in_process(1)
    with comm as same:
        assert same is comm and comm.allreduce(np.ones(2)).tolist() == [1.0, 1.0]
    comm.close()
    with pytest.raises(ringroad.AbortedError):
        comm.allreduce(np.ones(2))


def test_abort_releases_the_others():
    def work(comm):
        if comm.rank == 2:
            comm.abort("enough")
            return "aborted"
        with pytest.raises(ringroad.AbortedError, match="enough"):
            comm.allreduce(np.ones(100_000))
        with pytest.raises(ringroad.AbortedError):
            comm.barrier()
        return "released"

    assert in_threads(3, work, timeout=60) == ["released", "released", "aborted"]


def test_wait_with_a_timeout_of_its_own():
    """It raises, and the call continues."""
    entered = threading.Event()

    def work(comm):
        if comm.rank == 1:
            assert entered.wait(60)
            return comm.allreduce(np.ones(2)).tolist()
        call = comm.allreduce(np.ones(2), async_op=True)
        with pytest.raises(TimeoutError):
            call.wait(0.01)
        entered.set()
        return call.result().tolist()

    assert in_threads(2, work, timeout=60) == [[2.0, 2.0]] * 2
