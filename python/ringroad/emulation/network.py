"""An emulated network: hosts and switches, cables with a rate between them, and the topology's routes."""

import json
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from types import TracebackType

from ringroad._native import Topology
from ringroad.emulation import leftovers, namespaces
from ringroad.emulation.namespaces import Host, TestbedError
from ringroad.emulation.wiring import Cable, Wiring

DEVICE = "host"
"""The network device that has a host's address, on every host."""
MTU = 9000
"""The default of the longest packet, in bytes."""
LEAST_MTU, MOST_MTU = 68, 65535
"""What Linux accepts."""
_BURST_SECONDS = 250e-6  # after a pause a cable may carry this much time's bytes at once
_QUEUE_SECONDS = 20e-3  # this much time's bytes may queue for a cable; more are lost
_LEAST_BURST, _LEAST_QUEUE = 5_000, 1_000_000  # bytes
_HEADERS, _FRAME = 52, 14  # bytes of a packet's headers: of IP and TCP, and of Ethernet
_HOP_SECONDS = 20e-6  # time of a host to forward a packet
_MEMORY = 5e9  # bytes per second between a rank and the memory of its host
_CLOSED = 1_000  # bytes per second in a direction without a link
_NOBODY = "02:77:ff:ff:ff:ff"  # the address of no card: packets to it are lost silently
_AGENTS = [("OMPI_MCA", "plm_rsh_agent"), ("PRTE_MCA", "plm_ssh_agent")]  # of Open MPI 4 and 5
_QUIET = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
_TABLE = 100  # the first table of routes, and the first rule


class EmulatedNetwork:
    """Namespaces joined as a topology says. A context manager.

    Each host has an address of its own, on the device `host`, and a name, `host0`, `host1`, ... A message to another
    host takes the cables of the topology's route; hosts and switches on the way forward it. Raises TestbedError if this
    machine or this user cannot make namespaces, TopologyError if the topology cannot be emulated.
    """

    def __init__(self, topology: Topology, bandwidth: float, *, mtu: int = MTU) -> None:
        """`bandwidth`: bytes per second of the topology's fastest link if its capacity is 1, in each direction, headers
        included; other links get less in proportion. `mtu`: bytes of the longest packet."""
        namespaces.require()
        leftovers.end()
        if bandwidth < 2 * _CLOSED:
            raise ValueError(f"{bandwidth:g} bytes/s are too little for a cable")
        # The bandwidth of the fastest link for payload, without the headers of packets.
        payload = bandwidth * (mtu - _HEADERS) / (mtu + _FRAME)
        self.wiring = Wiring.of(topology)
        routed = self.wiring.topology
        self.topology = routed._with_fastest_link(payload).with_links(latency=_HOP_SECONDS, memory=_MEMORY)
        self.bandwidth = bandwidth
        self.mtu = mtu
        self._cables = {cable.ends: cable for cable in self.wiring.cables}
        self._numbers = {cable.ends: number for number, cable in enumerate(self.wiring.cables)}
        self._changed: set[tuple[int, int]] = set()
        self._cut: set[tuple[int, int]] = set()
        self._followed: Wiring | None = None
        self._hosts: list[Host] = []
        self._directory = tempfile.TemporaryDirectory(prefix="ringroad-")
        self._topology_file = os.path.join(self._directory.name, "topology.json")
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.topology.ranks

    def address(self, rank: int) -> str:
        """The address of a rank's host."""
        return _address(self.wiring.host_of(rank))

    def command(self, rank: int, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` on a rank's host."""
        return [*self._hosts[self.wiring.host_of(rank)].enter(), *command]

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables by which ringroad, torch.distributed and Open MPI find the network, without those of a job's
        store, and without those that the user has `given`."""
        ours = {name: value for name, value in self._variables().items() if not given.get(name)}
        return ours | leftovers.mark()

    def overridden(self, given: Mapping[str, str]) -> list[str]:
        """A sentence for every variable that the user has `given` although the network needs another value."""
        return [
            f"{name}={given[name]} from the environment stays; the testbed itself would set {value or 'none'}"
            for name, value in self._variables().items()
            if given.get(name, "") not in ("", value)
        ]

    def _variables(self) -> dict[str, str]:
        return {
            # Empty, so that each host uses its own name, even if mpirun passes on the environment.
            "RINGROAD_HOST": "",
            "RINGROAD_NET_DEVICES": DEVICE,
            "RINGROAD_TOPOLOGY": self._topology_file,
            "GLOO_SOCKET_IFNAME": DEVICE,
            "TP_SOCKET_IFNAME": DEVICE,
            "OMPI_MCA_btl_tcp_if_include": DEVICE,
            "OMPI_MCA_oob_tcp_if_include": DEVICE,
        }

    def mpi(self, directory: str) -> dict[str, str]:
        """Variables by which mpirun, started on the first host, starts its ranks on all of them. Writes two files into
        `directory`, which must stay as long as mpirun runs."""
        hosts, agent = os.path.join(directory, "hostfile"), os.path.join(directory, "agent")
        with open(hosts, "w") as file:
            for host, name in enumerate(self.wiring.names[: self.wiring.hosts]):
                file.write(f"{name} slots={len(self.wiring.ranks_of(host))}\n")
        with open(agent, "w") as file:
            file.write("#!/bin/sh\nhost=$1; shift\ncase $host in\n")
            for name, host in zip(self.wiring.names[: self.wiring.hosts], self._hosts, strict=False):
                file.write(f'{name}) exec {shlex.join(host.enter())} sh -c "$*" ;;\n')
            file.write('esac\necho "$host is no host of this testbed" >&2; exit 1\n')
        os.chmod(agent, 0o700)
        variables = {f"{prefix}_{name}": agent for prefix, name in _AGENTS}
        return variables | {"OMPI_MCA_orte_default_hostfile": hosts, "PRTE_MCA_prte_default_hostfile": hosts}

    # ------------------------------------------------------------------------------------------ cables

    def cut(self, a: int, b: int) -> None:
        """Cuts the cable between the hosts of two ranks: packets are lost silently."""
        cable = self._cable(a, b)
        self._changed.add(cable.ends)
        self._cut.add(cable.ends)
        self._join(cable, _NOBODY)

    def slow(self, a: int, b: int, factor: float) -> None:
        """Makes the cable between the hosts of two ranks `factor` times slower than it was built."""
        if factor < 1:
            raise ValueError(f"factor {factor:g}: how many times slower the cable becomes, from 1 on")
        cable = self._cable(a, b)
        self._changed.add(cable.ends)
        self._limit(cable, factor)

    def reroute(self) -> None:
        """Routes packets around cut cables, as routers do when they have noticed. Raises TopologyError if no path is
        left."""
        # If ranks share hosts, the topology numbers its ranks first, then the nodes of this network.
        first = self.topology.ranks if self.wiring.hosts < self.topology.ranks else 0
        pairs = [(a + first, b + first) for a, b in sorted(self._cut)]
        self._follow(Wiring.of(self.topology.without_links(pairs)) if pairs else self.wiring)

    def restore(self) -> None:
        """Restores all cables and the topology's routes."""
        for ends in sorted(self._changed):
            self._join(self._cables[ends])
            self._limit(self._cables[ends])
        self._changed.clear()
        self._cut.clear()
        if self._followed is not self.wiring:
            self._follow(self.wiring)

    def carried(self, a: int, b: int) -> int:
        """The bytes that the cable between the hosts of two ranks has carried from `a` to `b`, headers included."""
        cable = self._cable(a, b)
        near, far = self.wiring.host_of(a), self.wiring.host_of(b)
        assert set(cable.ends) == {near, far}
        (device,) = json.loads(self._hosts[near].read("ip", "-json", "-statistics", "link", "show", _device(far)))
        return int(device["stats64"]["tx"]["bytes"])

    def _cable(self, a: int, b: int) -> Cable:
        near, far = self.wiring.host_of(a), self.wiring.host_of(b)
        cable = self._cables.get((min(near, far), max(near, far)))
        if cable is None:
            names = self.wiring.names
            raise TestbedError(f"no cable leads from rank {a} ({names[near]}) to rank {b} ({names[far]})")
        return cable

    def _limit(self, cable: Cable, factor: float = 1.0) -> None:
        """Sets the rate of a cable, in both directions."""
        for near, far, capacity in _directions(cable):
            rate = max(capacity * self.bandwidth / factor, _CLOSED)
            burst = max(rate * _BURST_SECONDS, 2 * (self.mtu + _FRAME), _LEAST_BURST)
            limit = max(rate * _QUEUE_SECONDS, 10 * self.mtu, _LEAST_QUEUE)
            bucket = f"tbf rate {8 * rate:.0f}bit burst {burst:.0f} limit {limit:.0f}"
            self._hosts[near].tc([f"qdisc replace dev {_device(far)} root {bucket}"])

    def _join(self, cable: Cable, card: str | None = None) -> None:
        """Sets the hardware address to which both ends send: each other's, or `card`."""
        number = self._numbers[cable.ends]
        for near, far, _ in _directions(cable):
            there = _end(number, int(near < far))
            to = f"lladdr {card or _card(far, near)} nud permanent dev {_device(far)}"
            self._hosts[near].ip([f"neighbour replace {there} {to}"])

    # ------------------------------------------------------------------------------------------ building

    def _build(self) -> None:
        wiring = self.wiring
        self.topology.save(self._topology_file)
        hosts_file = os.path.join(self._directory.name, "hosts")
        with open(hosts_file, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{_address(host)} {wiring.names[host]}\n" for host in range(wiring.hosts))
        for name in wiring.names:
            self._hosts.append(Host(name, hosts_file))
        for node, host in enumerate(self._hosts):
            # The device with the host's address is a veth pair, too; both of its ends are on this host.
            host.ip(
                [
                    "link set lo up",
                    f"link add {DEVICE} mtu {self.mtu} type veth peer name {DEVICE}-end mtu {self.mtu}",
                    f"address add {_address(node)}/32 dev {DEVICE}",
                    f"link set {DEVICE}-end up",
                    f"link set {DEVICE} up",
                ]
            )
            host.write({"net.ipv4.ip_forward": "1", "net.ipv4.conf.all.rp_filter": "0", **_QUIET})
        for cable in wiring.cables:
            self._lay(cable)
        for node, host in enumerate(self._hosts):
            # UCX uses a device only for destinations whose most specific route goes by it. The rules of `_follow` come
            # first, so packets never take these routes.
            others = [other for other in range(wiring.hosts) if other != node]
            host.ip([f"route add {_address(other)}/32 dev {DEVICE}" for other in others])
        self._follow(wiring)

    def _lay(self, cable: Cable) -> None:
        """Makes a cable between two nodes. Each end has an address, and knows the hardware address of the other end."""
        first, second = cable.ends
        peer = f"name {_device(first)} mtu {self.mtu} address {_card(second, first)} netns {self._hosts[second].path()}"
        own = f"{_device(second)} mtu {self.mtu} address {_card(first, second)}"
        self._hosts[first].ip([f"link add {own} type veth peer {peer}"])
        number = self._numbers[cable.ends]
        for near, far, _ in _directions(cable):
            here, there = _end(number, int(near > far)), _end(number, int(near < far))
            device = _device(far)
            self._hosts[near].ip([f"address add {here} peer {there} dev {device}", f"link set {device} up"])
        self._join(cable)
        self._limit(cable)

    def _follow(self, wiring: Wiring) -> None:
        """Makes packets take these routes."""
        tables = range(_TABLE, _TABLE + 1 + len(wiring.names))
        for node, host in enumerate(self._hosts):
            if self._followed is not None:
                priorities = [int(line.split(":")[0]) for line in host.read("ip", "rule").splitlines()]
                old = [priority for priority in priorities if priority in tables]
                for number in old:
                    host.ip([f"rule delete priority {number}", f"route flush table {number}"])
            host.ip(self._routes(node, wiring))
        self._followed = wiring

    def _routes(self, node: int, wiring: Wiring) -> list[str]:
        def by(following: int) -> str:
            number = self._numbers[min(node, following), max(node, following)]
            return f"via {_end(number, int(node < following))} dev {_device(following)} src {_address(node)}"

        # A table of routes has the priority of its rule as its number. Packets from one host may take another route
        # than
        # packets from others: each such host has a table, which comes before the table for all.
        general = _TABLE + len(wiring.names)
        routes = [(host, following, general) for (at, host), following in wiring.next_node.items() if at == node]
        for (at, source, host), following in wiring.exceptions.items():
            if at == node:
                routes.append((host, following, _TABLE + source))
        lines = [f"route add {_address(host)}/32 {by(following)} table {table}" for host, following, table in routes]
        for table in sorted({table for _, _, table in routes} - {general}):
            lines.append(f"rule add from {_address(table - _TABLE)} lookup {table} priority {table}")
        lines.append(f"rule add lookup {general} priority {general}")
        return lines

    def close(self) -> None:
        """Ends the network when no process runs on its hosts any more. Idempotent."""
        for host in self._hosts:
            host.close()
        self._hosts.clear()
        self._directory.cleanup()

    def __enter__(self) -> "EmulatedNetwork":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _directions(cable: Cable) -> list[tuple[int, int, float]]:
    """Both directions of a cable as (from, to, capacity)."""
    (first, second), (there, back) = cable.ends, cable.capacities
    return [(first, second, there), (second, first, back)]


def _address(node: int) -> str:
    return f"10.77.{node // 250}.{node % 250 + 1}"


def _end(number: int, end: int) -> str:
    """The address of one end of a cable."""
    place = 2 * number + end
    return f"10.78.{place // 250}.{place % 250 + 1}"


def _device(far: int) -> str:
    """The name of the device whose cable leads to the node `far`."""
    return f"to{far}"


def _card(node: int, far: int) -> str:
    """The hardware address of `node`'s device towards `far`."""
    return f"02:77:{node // 256:02x}:{node % 256:02x}:{far // 256:02x}:{far % 256:02x}"
