"""What the ranks of an emulated network are told of it, and what mpirun is."""

import json
import os
import shlex
from collections.abc import Sequence
from typing import Literal, get_args

from ringroad._native import Topology
from ringroad.testbed.fabric import DEVICE
from ringroad.testbed.wiring import STATED, Stated

Tell = Literal["all", "graph", "nothing"]
"""What ranks are told: their network with its rates, and its device; the same without rates; or only rank, size and
where rank 0 is."""
TELL: tuple[Tell, ...] = get_args(Tell)
MEMORY = 5e9
"""Bytes per second between a rank and the memory of its host."""
_HOP_SECONDS = 20e-6  # time of a host to forward a packet
_UNKNOWN = 12.5e9  # bytes per second of all links, if only the graph is told: what ringroad itself assumes
_AGENTS = [("OMPI_MCA", "plm_rsh_agent"), ("PRTE_MCA", "plm_ssh_agent")]  # of Open MPI 4 and 5


def truth(topology: Topology, payload: float, shared: bool, delay: float | Stated) -> Topology:
    """The network with the rates and latencies that are emulated. `payload`: bytes per second of its fastest link.
    `shared`: whether ranks share hosts."""
    rates = topology._with_fastest_link(payload).with_links(memory=MEMORY)
    return rates.with_links(processing=_HOP_SECONDS) if delay == STATED else _delayed(rates, shared, delay)


def _delayed(topology: Topology, shared: bool, delay: float) -> Topology:
    """The network with the time of forwarding as the latency of every link, and this delay in addition for those that
    leave a host: all, unless ranks have `shared` hosts."""
    if not shared:
        return topology.with_links(latency=_HOP_SECONDS + delay)
    value = json.loads(topology.with_links(latency=_HOP_SECONDS).to_json())
    for link in value["links"]:
        if min(link["source"], link["target"]) >= topology.ranks:
            link["latency"] += delay
    return Topology.from_json(json.dumps(value))


def without_rates(topology: Topology) -> Topology:
    """The network with links that are all as fast as ringroad assumes."""
    return topology.with_links(bandwidth=_UNKNOWN)


def variables(topology_file: str) -> dict[str, str]:
    """The environment variables by which ringroad, torch.distributed and Open MPI find the network."""
    return {
        # Empty, so that each host uses its own name, even if mpirun passes on the environment.
        "RINGROAD_HOST": "",
        "RINGROAD_NET_DEVICES": DEVICE,
        "RINGROAD_TOPOLOGY": topology_file,
        "GLOO_SOCKET_IFNAME": DEVICE,
        "TP_SOCKET_IFNAME": DEVICE,
        "OMPI_MCA_btl_tcp_if_include": DEVICE,
        "OMPI_MCA_oob_tcp_if_include": DEVICE,
    }


def mpi(directory: str, slots: Sequence[tuple[str, int]], enter: Sequence[Sequence[str]]) -> dict[str, str]:
    """The environment variables by which mpirun starts its ranks, of two files that this writes.

    `slots`: each host's name and number of ranks. `enter`: the prefix of a command line that runs there.
    """
    file, agent = os.path.join(directory, "hostfile"), os.path.join(directory, "agent")
    with open(file, "w") as lines:
        lines.writelines(f"{name} slots={count}\n" for name, count in slots)
    with open(agent, "w") as lines:
        lines.write("#!/bin/sh\nhost=$1; shift\ncase $host in\n")
        for (name, _), prefix in zip(slots, enter, strict=True):
            lines.write(f'{name}) exec {shlex.join(prefix)} sh -c "$*" ;;\n')
        lines.write('esac\necho "$host is not a host of this testbed" >&2; exit 1\n')
    os.chmod(agent, 0o700)
    agents = {f"{prefix}_{name}": agent for prefix, name in _AGENTS}
    return agents | {"OMPI_MCA_orte_default_hostfile": file, "PRTE_MCA_prte_default_hostfile": file}
