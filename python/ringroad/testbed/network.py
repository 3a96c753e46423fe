"""An emulated network: hosts and switches, cables with a rate between them, and the topology's routes."""

import os
import tempfile
from collections.abc import Mapping, Sequence

from ringroad._native import Topology
from ringroad._support.text import parse_seconds, whole
from ringroad.testbed import bridged, leftovers, namespaces, telling
from ringroad.testbed.delay import Relay
from ringroad.testbed.fabric import CLOSED, FRAME, Fabric, address
from ringroad.testbed.namespaces import Host, TestbedError
from ringroad.testbed.placing import placed
from ringroad.testbed.routed import Routed
from ringroad.testbed.telling import MEMORY, TELL, Tell
from ringroad.testbed.traffic import Load
from ringroad.testbed.wiring import STATED, Cable, Stated, Wiring

MTU = 9000
"""The default of the longest packet, in bytes."""
LEAST_MTU, MOST_MTU = 68, 65535
"""What Linux accepts."""
_HEADERS = 52  # bytes of a packet's headers of IP and TCP


def parse_delay(text: str) -> float | Stated:
    """A delay as users write it. Raises ValueError."""
    return STATED if text == STATED else parse_seconds(text)


class EmulatedNetwork:
    """Namespaces joined as a topology says. A context manager.

    Each host has an address of its own, on the device `host`, and a name, `host0`, `host1`, ... A message to another
    host takes the cables of the topology's route; hosts and switches on the way forward it. Raises TestbedError if this
    machine or this user cannot make namespaces, TopologyError if the topology cannot be emulated.
    """

    def __init__(
        self,
        topology: Topology,
        bandwidth: float,
        *,
        mtu: int = MTU,
        tell: Tell = "all",
        hosts: Sequence[int] | None = None,
        order: Sequence[int] | None = None,
        bridges: bool = False,
        delay: float | Stated = 0.0,
    ) -> None:
        """`bandwidth`: bytes per second of the topology's fastest link if its capacity is 1, in each direction, headers
        included; other links get less in proportion. `mtu`: bytes of the longest packet. `tell`: what ranks are told.
        `hosts`: how many ranks run on each rank of the topology, which then is a host. `order`: for each rank, the rank
        of the topology in whose place it runs. `bridges`: whether switches are bridges, which have no address. `delay`:
        seconds that a packet is on a cable; "stated": the latencies of the topology's links."""
        if tell not in TELL:
            raise ValueError(f"tell={tell!r}: expected one of: {', '.join(TELL)}")
        if not LEAST_MTU <= whole("mtu", mtu) <= MOST_MTU:
            raise ValueError(f"mtu is from {LEAST_MTU} to {MOST_MTU} bytes, not {mtu}")
        namespaces.require()
        leftovers.end()
        if bandwidth < 2 * CLOSED:
            raise ValueError(f"{bandwidth:g} bytes/s are too little for a cable")
        # The bandwidth of the fastest link for payload, without the headers of packets.
        payload = bandwidth * (mtu - _HEADERS) / (mtu + FRAME)
        self.wiring = Wiring.of(*placed(topology, hosts, order, MEMORY / payload)).delayed(delay)
        if bridges:
            bridged.check(self.wiring)
        routed = self.wiring.topology
        self.topology = telling.truth(routed, payload, self.wiring.shared, delay)
        told = {"all": self.topology, "graph": telling.without_rates(routed), "nothing": None}
        self.told = told[tell]
        """The topology that ranks are told, if they are told any."""
        self.bandwidth = bandwidth
        self.mtu = mtu
        self._cables = {cable.ends: cable for cable in self.wiring.cables}
        self._changed: set[tuple[int, int]] = set()
        self._cut: set[tuple[int, int]] = set()
        self._loads: dict[tuple[int, int], Load] = {}
        self._hosts: list[Host] = []
        kind: type[Fabric] = bridged.Bridged if bridges else Routed
        self._fabric = kind(self.wiring, self._hosts, bandwidth, mtu)
        self._directory = tempfile.TemporaryDirectory(prefix="ringroad-")
        self._topology_file = os.path.join(self._directory.name, "topology.json")
        self._variables = telling.variables(self._topology_file) if self.told else {}
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def prepare(self, command: str) -> None:
        """Runs a shell command on every host and every switch, one after the other. `hostname` tells them apart. Raises
        TestbedError if it fails."""
        for host in self._hosts:
            host.read("sh", "-ec", command)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.topology.ranks

    def address(self, rank: int) -> str:
        """The address of a rank's host."""
        return address(self.wiring.host_of(rank))

    def command(self, rank: int, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` on a rank's host."""
        return [*self._hosts[self.wiring.host_of(rank)].enter(), *command]

    # ------------------------------------------------------------------------------------------ what ranks are told

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables by which ringroad, torch.distributed and Open MPI find the network, without those of a job's
        store, and without those that the user has `given`."""
        ours = {name: value for name, value in self._variables.items() if not given.get(name)}
        return ours | leftovers.mark()

    def overridden(self, given: Mapping[str, str]) -> list[str]:
        """A sentence for every variable that the user has `given` although the network needs another value."""
        return [
            f"{name}={given[name]} from the environment stays; the testbed itself would set {value or 'none'}"
            for name, value in self._variables.items()
            if given.get(name, "") not in ("", value)
        ]

    def mpi(self, directory: str) -> dict[str, str]:
        """Variables by which mpirun, started on the first host, starts its ranks on all of them. Writes two files into
        `directory`, which must stay as long as mpirun runs."""
        hosts = range(self.wiring.hosts)
        slots = [(self.wiring.names[host], len(self.wiring.ranks_of(host))) for host in hosts]
        return telling.mpi(directory, slots, [self._hosts[host].enter() for host in hosts])

    # ------------------------------------------------------------------------------------------ cables

    def cut(self, a: int | str, b: int | str) -> None:
        """Cuts the cable between the hosts of two ranks, or between nodes of these names: packets are lost silently."""
        cable = self.cable(a, b)
        self._changed.add(cable.ends)
        self._cut.add(cable.ends)
        self._fabric.cut(cable)

    def slow(self, a: int | str, b: int | str, factor: float) -> None:
        """Makes the cable between the hosts of two ranks, or between nodes of these names, `factor` times slower than
        it was built."""
        if factor < 1:
            raise ValueError(f"factor {factor:g}: how many times slower the cable becomes, from 1 on")
        cable = self.cable(a, b)
        self._changed.add(cable.ends)
        self._fabric.limit(cable, factor)

    def reroute(self) -> None:
        """Routes packets around cut cables, as routers do when they have noticed. Raises TopologyError if no path is
        left."""
        # If ranks share hosts, the topology numbers its ranks first, then the nodes of this network.
        first = self.topology.ranks if self.wiring.shared else 0
        pairs = [(a + first, b + first) for a, b in sorted(self._cut)]
        left = self.topology.without_links(pairs)
        self._fabric.follow(Wiring.of(left, self.wiring.host_of_rank) if pairs else self.wiring)

    def restore(self) -> None:
        """Restores all cables and the topology's routes, and ends what `load` has begun."""
        for ends in sorted(self._changed):
            self._fabric.mend(self._cables[ends])
            self._fabric.limit(self._cables[ends])
        self._changed.clear()
        self._cut.clear()
        while self._loads:
            self._loads.popitem()[1].close()
        self._fabric.follow(self.wiring)

    def load(self, a: int | str, b: int | str, rate: float) -> None:
        """Sends packets from the host of rank `a`, or of this name, to that of `b`, at `rate` bytes per second, headers
        included, until another rate is set; 0 ends it. What the network cannot carry is lost."""
        if not 0 <= rate < float("inf"):
            raise ValueError(f"rate {rate:g}: bytes per second, from 0 on")
        near, far = self.ends(a, b)
        if (near, far) in self._loads:
            self._loads.pop((near, far)).close()
        if rate:
            hosts = self._hosts[near], self._hosts[far]
            self._loads[near, far] = Load(*hosts, address(far), rate, self.mtu)

    def ends(self, a: int | str, b: int | str) -> tuple[int, int]:
        """The hosts between which `load` sends. Raises TestbedError."""
        near, far = self._node(a), self._node(b)
        if near == far or max(near, far) >= self.wiring.hosts:
            raise TestbedError(
                f"packets are sent from host to another host, not from {self._called(a)} to {self._called(b)}"
            )
        return near, far

    def carried(self, a: int | str, b: int | str) -> int:
        """The bytes that the cable between the hosts of two ranks, or between nodes of these names, has carried from
        `a` to `b`, headers included."""
        self.cable(a, b)
        return self._fabric.carried(self._node(a), self._node(b))

    def cable(self, a: int | str, b: int | str) -> Cable:
        """The cable between the hosts of two ranks, or between nodes of these names. Raises TestbedError."""
        near, far = self._node(a), self._node(b)
        cable = self._cables.get((min(near, far), max(near, far)))
        if cable is None:
            raise TestbedError(f"no cable leads from {self._called(a)} to {self._called(b)}")
        return cable

    def _node(self, place: int | str) -> int:
        """The node of a rank, or of this name."""
        if isinstance(place, int):
            return self.wiring.host_of(place)
        if place not in self.wiring.names:
            raise ValueError(f"{place!r} is not a testbed node; expected one of: {', '.join(self.wiring.names)}")
        return self.wiring.names.index(place)

    def _called(self, place: int | str) -> str:
        return place if isinstance(place, str) else f"rank {place} ({self.wiring.names[self._node(place)]})"

    # ------------------------------------------------------------------------------------------ its life

    def _build(self) -> None:
        if self.told is not None:
            self.told.save(self._topology_file)
        wiring = self.wiring
        hosts_file = os.path.join(self._directory.name, "hosts")
        with open(hosts_file, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{address(host)} {wiring.names[host]}\n" for host in range(wiring.hosts))
        for name in wiring.names:
            self._hosts.append(Host(name, hosts_file))
        if any(cable.seconds for cable in wiring.cables):
            self._fabric.relay = Relay(hosts_file)
        self._fabric.build()

    def close(self) -> None:
        """Ends the network when no process runs on its hosts any more. Idempotent."""
        while self._loads:
            self._loads.popitem()[1].close()
        if self._fabric.relay:
            self._fabric.relay.close()
        for host in self._hosts:
            host.close()
        self._hosts.clear()
        self._directory.cleanup()

    def __enter__(self) -> "EmulatedNetwork":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
