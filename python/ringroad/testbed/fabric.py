"""Hosts and switches that are joined by cables, each limited to a rate; what leads packets over them is a subclass."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ringroad.testbed.delay import Relay
from ringroad.testbed.namespaces import Host
from ringroad.testbed.wiring import Cable, Wiring

DEVICE = "host"
"""The network device that has a host's address, on every host."""
FRAME = 14
"""Bytes of a packet's header of Ethernet."""
CLOSED = 1_000
"""Bytes per second in a direction without a link."""
QUIET = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
"""Kernel variables (sysctl) by which a host sends nothing by itself."""
_BURST_SECONDS = 250e-6  # after a pause a cable may carry this much time's bytes at once
_QUEUE_SECONDS = 20e-3  # this much time's bytes may queue for a cable; more are lost
_LEAST_BURST, _LEAST_QUEUE = 5_000, 1_000_000  # bytes


class Fabric(ABC):
    """The cables of a wiring, and how packets find their way over them."""

    def __init__(self, wiring: Wiring, hosts: Sequence[Host], bandwidth: float, mtu: int) -> None:
        """`hosts`: one for each node of the wiring. `bandwidth`: bytes per second of a cable of capacity 1."""
        self.wiring = wiring
        self.hosts = hosts
        self.bandwidth = bandwidth
        self.mtu = mtu
        self.relay: Relay | None = None
        """What delays frames, if cables have a delay."""

    @abstractmethod
    def build(self) -> None:
        """Sets up all nodes and lays all cables."""

    def lay_all(self) -> None:
        """Lays all cables."""
        for cable in self.wiring.cables:
            self.lay(cable)
        if self.relay:
            self.relay.start()

    @abstractmethod
    def cut(self, cable: Cable) -> None:
        """Lets all packets on a cable be lost silently."""

    @abstractmethod
    def mend(self, cable: Cable) -> None:
        """Ends what `cut` did."""

    @abstractmethod
    def follow(self, wiring: Wiring) -> None:
        """Makes packets take the routes of another wiring of the same nodes."""

    def device(self, node: int, peer: int) -> str:
        """The name of the device of `node` whose cable leads to `peer`."""
        return f"to{peer}"

    def lay(self, cable: Cable) -> None:
        """Makes a cable: a pair of virtual devices, limited to their rates."""
        ends = [
            (self.hosts[node], f"{self.device(node, peer)} mtu {self.mtu} address {mac_address(node, peer)}")
            for node, peer, _ in directions(cable)
        ]
        if cable.seconds:
            assert self.relay
            self.relay.splice(ends, self.mtu, cable.seconds)
        else:
            (first, own), (second, peer) = ends
            first.ip([f"link add {own} type veth peer name {peer} netns {second.path()}"])
        self.limit(cable)

    def limit(self, cable: Cable, factor: float = 1.0) -> None:
        """Sets the rate of a cable in both directions to what was built, divided by `factor`."""
        for node, peer, capacity in directions(cable):
            rate = max(capacity * self.bandwidth / factor, CLOSED)
            burst = max(rate * _BURST_SECONDS, 2 * (self.mtu + FRAME), _LEAST_BURST)
            limit = max(rate * _QUEUE_SECONDS, 10 * self.mtu, _LEAST_QUEUE)
            bucket = f"tbf rate {8 * rate:.0f}bit burst {burst:.0f} limit {limit:.0f}"
            self.hosts[node].tc([f"qdisc replace dev {self.device(node, peer)} root {bucket}"])

    def carried(self, node: int, peer: int) -> int:
        """The bytes that the cable between two nodes has carried from the first to the second."""
        name = self.device(node, peer)
        (device,) = json.loads(self.hosts[node].read("ip", "-json", "-statistics", "link", "show", name))
        return int(device["stats64"]["tx"]["bytes"])


def directions(cable: Cable) -> list[tuple[int, int, float]]:
    """Both directions of a cable as (from, to, capacity)."""
    (first, second), (there, back) = cable.ends, cable.capacities
    return [(first, second, there), (second, first, back)]


def address(node: int) -> str:
    """The address of a host or a switch."""
    return f"10.77.{node // 250}.{node % 250 + 1}"


def mac_address(node: int, peer: int) -> str:
    """The hardware address of `node`'s device towards `peer`."""
    return f"02:77:{node // 256:02x}:{node % 256:02x}:{peer // 256:02x}:{peer % 256:02x}"
