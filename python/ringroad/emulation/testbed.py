"""`ringroad.testbed`: worker processes on an emulated network, for scripts, notebooks and tests."""

from collections.abc import Mapping
from os import PathLike

from ringroad._native import Topology
from ringroad._text import parse_bandwidth
from ringroad.cluster import LocalCluster
from ringroad.emulation.network import MTU, EmulatedNetwork


def testbed(
    topology: str | PathLike[str] | Topology,
    *,
    rate: str | float,
    algorithm: str | None = None,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    mtu: int = MTU,
) -> "Testbed":
    """Starts a worker process for each rank of a topology, on an emulated network of this topology, on this machine.

        with ringroad.testbed("torus:3x3", rate="100Mbit") as bed:
            results = bed.run(lambda comm: comm.allreduce(np.full(3, comm.rank)))
            bed.slow(0, 1, factor=10)

    Every host is a network namespace. Every cable of the topology is a pair of virtual devices that carries `rate`
    (`100Mbit`, or bytes per second) in each direction, times the capacity of the link. Packets to a distant host go
    from host to host along the topology's route. Switches are namespaces, too; ranks of one host (`hosts:2x4`) share
    its memory. The topology has 2 to 36 ranks. `mtu` is the longest packet in bytes.

    `algorithm`, `timeout` and `env` are as in `ringroad.local`. Raises TestbedError if this machine or this user cannot
    make namespaces (it needs root or a user namespace), TopologyError if the topology cannot be emulated, WorkerError
    if the workers do not start.
    """
    bandwidth = parse_bandwidth(rate) if isinstance(rate, str) else rate
    network = EmulatedNetwork(topology if isinstance(topology, Topology) else Topology(topology), bandwidth, mtu=mtu)
    try:
        return Testbed(network, algorithm=algorithm, timeout=timeout, env=env)
    except BaseException:
        network.close()
        raise


testbed.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test


class Testbed(LocalCluster):
    """Worker processes on an emulated network; see `ringroad.testbed`, and `ringroad.LocalCluster` for `run` and the
    other methods.

    Workers and network end at `close`, at the end of the `with` block, or when this process ends in whatever way.
    """

    __test__ = False

    def __init__(
        self,
        network: EmulatedNetwork,
        *,
        algorithm: str | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.network = network
        topology = network.topology
        super().__init__(
            topology.ranks,
            topology=topology,
            algorithm=algorithm,
            timeout=timeout,
            env=env,
            _place=lambda rank, command: (network.command(rank, command), network.environment()),
        )

    def cut(self, a: int, b: int) -> None:
        """Cuts the cable between the hosts of two ranks: packets are lost silently. Raises TestbedError if there is no
        such cable."""
        self.network.cut(a, b)

    def slow(self, a: int, b: int, factor: float) -> None:
        """Makes the cable between the hosts of two ranks `factor` times slower than it was built, both ways."""
        self.network.slow(a, b, factor)

    def reroute(self) -> None:
        """Routes packets around cut cables, as routers do when they have noticed. Raises TopologyError if no path is
        left."""
        self.network.reroute()

    def restore(self) -> None:
        """Restores all cables and the topology's routes."""
        self.network.restore()

    def carried(self, a: int, b: int) -> int:
        """The bytes that the cable between the hosts of two ranks has carried from `a` to `b`, headers included."""
        return self.network.carried(a, b)

    def close(self) -> None:
        """Ends the workers and the network. Idempotent."""
        super().close()
        self.network.close()

    def __repr__(self) -> str:
        return f"<Testbed {self.network.topology.spec}{', closed' if self._closed else ''}>"
