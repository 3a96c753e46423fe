"""`ringroad.testbed.emulate`: worker processes on an emulated network, for scripts, notebooks and tests."""

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike

from ringroad._native import RingroadError, Topology
from ringroad._support.text import by_key, check_class, items, number, parse_bandwidth
from ringroad.start.local import LocalCluster
from ringroad.testbed.events import Event
from ringroad.testbed.network import MTU, EmulatedNetwork, parse_delay
from ringroad.testbed.telling import Tell


def emulate(
    topology: str | PathLike[str] | Topology,
    *,
    rate: str | float,
    algorithm: str | None = None,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    mtu: int = MTU,
    tell: Tell = "all",
    hosts: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    bridges: bool = False,
    delay: str | float = 0.0,
    prepare: str | None = None,
) -> "Testbed":
    """Starts a worker process for each rank of a topology, on an emulated network of that form, on this machine.

    Every host is a network namespace, and every cable of the topology a pair of virtual devices. A message for a
    distant host goes from host to host along the topology's route. Switches are namespaces, too; ranks of one host
    (`hosts:2x4`) share its memory.

    Args:
        topology: A `Topology`, a spec, or the path of a graph's file; 2 to 256 ranks.
        rate: What a cable carries in each direction, times the capacity of its link: "100Mbit", or bytes per
            second. If links have different bandwidths, as in a graph's file, this is the rate of the fastest, and
            the others get less in proportion.
        algorithm: The algorithms to choose among, as in `ringroad.init`.
        timeout: Seconds after which a collective fails. None: RINGROAD_TIMEOUT, or 300.
        env: Variables to add to the workers' environment. They, and those of this process, precede those by which
            the testbed tells ranks of their network; a `UserWarning` says where that matters.
        mtu: The longest packet in bytes.
        tell: What ranks are told of their network: "all", also the rates of its links; "graph", without rates; or
            "nothing", so that they know only rank, size and the address of rank 0, as on a network that nobody has
            described.
        hosts: The number of ranks on each host; the ranks of `topology` are hosts. None: one.
        order: For each rank the place in `topology` where it runs. None: each in its own.
        bridges: Switches are bridges, which have no addresses: all hosts see each other in one hop. The switches must
            form a tree, and each host have one cable.
        delay: How long a packet is on a cable, in one direction: "5ms", or seconds; "stated": the latencies of the
            topology's links, from 0.1 ms on.
        prepare: A shell command that every host and every switch runs before the ranks start, such as one that sets
            up a firewall. `hostname` says which it is: host0, host1, ..., switch0, ...

    Returns:
        A `Testbed`. Use it in a `with` block, or close it.

    Raises:
        TestbedError: This machine or this user cannot make network namespaces; that needs root, or user namespaces.
            The message says what to permit. Or `prepare` has failed.
        TopologyError: The topology is malformed, or cannot be emulated.
        WorkerError: A worker does not start, or the workers cannot connect.
        ValueError: `rate` or `tell` is invalid.

    Example:
        >>> with ringroad.testbed.emulate("ring:3", rate="100Mbit") as bed:
        ...     bed.slow(0, 1, factor=10)
        ...     [int(total) for total in bed.run(lambda comm: comm.allreduce(np.array(comm.rank)))]
        [3, 3, 3]
    """
    network = EmulatedNetwork(
        Topology(topology),
        _rate(rate),
        mtu=mtu,
        tell=tell,
        hosts=None if hosts is None else items("hosts", hosts),
        order=None if order is None else items("order", order),
        bridges=bridges,
        delay=parse_delay(delay) if isinstance(delay, str) else number("delay", delay),
    )
    try:
        if prepare is not None:
            check_class("prepare", prepare, str)
            network.prepare(prepare)
        return Testbed(network, algorithm=algorithm, timeout=timeout, env=env)
    except BaseException:
        network.close()
        raise


def _rate(rate: str | float) -> float:
    """Bytes per second."""
    return parse_bandwidth(rate) if isinstance(rate, str) else number("rate", rate)


class Testbed(LocalCluster):
    """Worker processes on an emulated network. `ringroad.testbed.emulate` starts them.

    It is a `LocalCluster`, which explains `run` and the rest. Workers and network end at `close`, at the end of the
    `with` block, or when this process ends in whatever way.

    Args:
        network: The network to run on; the testbed closes it.
        algorithm: The algorithms to choose among.
        timeout: Seconds after which a collective fails.
        env: Variables to add to the workers' environment.
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
        check_class("network", network, EmulatedNetwork)
        self.network = network
        self._changing = threading.RLock()
        self._timers: list[threading.Timer] = []
        given = {**os.environ, **dict(by_key("env", env))}
        for sentence in network.overridden(given):
            warnings.warn(sentence, stacklevel=3)
        super().__init__(
            network.size,
            topology=network.told,
            algorithm=algorithm,
            timeout=timeout,
            env=env,
            _place=lambda rank, command: (network.command(rank, command), network.environment(given)),
            _meet=None if network.told else network.address(0),
        )

    def cut(self, a: int | str, b: int | str) -> None:
        """Cuts the cable between the hosts of two ranks. Its packets are lost, and no host is told.

        Args:
            a: A rank, or the name of a host or a switch, such as "switch0".
            b: A rank of a neighbouring host, or the neighbour's name.

        Raises:
            TestbedError: There is no such cable.
        """
        with self._changing:
            self.network.cut(a, b)

    def slow(self, a: int | str, b: int | str, factor: float) -> None:
        """Makes the cable between the hosts of two ranks slower in both directions.

        Args:
            a: A rank, or the name of a host or a switch, such as "switch0".
            b: A rank of a neighbouring host, or the neighbour's name.
            factor: How many times slower the cable becomes than it was built.

        Raises:
            TestbedError: There is no such cable.
        """
        with self._changing:
            self.network.slow(a, b, factor)

    def reroute(self) -> None:
        """Leads packets around the cables that are cut, as routers do once they have noticed.

        Raises:
            TopologyError: The cut cables leave no path.
        """
        with self._changing:
            self.network.reroute()

    def restore(self) -> None:
        """Mends all cables, leads packets along the topology's routes again, and ends all loads."""
        with self._changing:
            self.network.restore()

    def load(self, a: int | str, b: int | str, rate: str | float) -> None:
        """Sends packets from the host of one rank to that of another, as others do who use the network, too.

        They do not wait for the network: what it cannot carry is lost.

        Args:
            a: The rank whose host sends, or the name of a host.
            b: The rank whose host receives, or the name of a host.
            rate: How much it sends, headers included: "50Mbit", or bytes per second. It replaces an earlier rate, and 0
                ends the stream.

        Raises:
            TestbedError: Both are the same host, or one is a switch.
            ValueError: `rate` is invalid.
        """
        with self._changing:
            self.network.load(a, b, _rate(rate))

    def at(self, seconds: float, event: str) -> None:
        """Lets something happen later, while `run` runs.

        Args:
            seconds: How much later.
            event: "cut 0 1", "slow 0 1 4", "load 0 2 50Mbit", "reroute" or "restore". If it fails then, a
                `UserWarning` says so.

        Raises:
            TestbedError: The network has no such cable or host.
            ValueError: `event` is malformed.
        """
        planned = Event.of(number("seconds", seconds), event)
        planned.check(self.network)
        timer = threading.Timer(planned.seconds, self._happen, [planned])
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _happen(self, event: Event) -> None:
        with self._changing:
            if self._closed:
                return
            try:
                event.happen(self.network)
            except (RingroadError, ValueError) as error:
                warnings.warn(f"{event.text} failed: {error}", stacklevel=2)

    def carried(self, a: int | str, b: int | str) -> int:
        """Returns the bytes that a cable has carried in one direction, headers included.

        Args:
            a: A rank of the host that sends, or the name of a host or a switch.
            b: A rank of the neighbour that receives, or its name.

        Raises:
            TestbedError: There is no such cable.
        """
        return self.network.carried(a, b)

    def close(self) -> None:
        """Ends the workers and the network. A second call does nothing."""
        super().close()
        for timer in self._timers:
            timer.cancel()
        with self._changing:
            self.network.close()

    def __repr__(self) -> str:
        return f"<Testbed {self.network.topology.spec}{', closed' if self._closed else ''}>"
