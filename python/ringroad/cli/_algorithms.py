"""The list of algorithms, which `ringroad explain` prints."""

from typing import Any

from ringroad._native import Algorithm, Topology
from ringroad._native import algorithms as catalogue
from ringroad._support.text import print_json, print_table, print_wrapped


def print_list(network: Topology, collective: str | None, as_json: bool) -> None:
    """Prints the algorithms, with the costs of each on a network.

    Args:
        network: The network for which steps, bytes and ports are counted.
        collective: Only algorithms that perform this collective. None: all.
        as_json: Whether to print JSON.
    """
    entries = on_network(network, collective)
    if as_json:
        return print_json(entries)
    print_wrapped(f"on {network.spec}; sent: what the busiest rank sends by all its ports, of the message")
    print_wrapped("bit-identical: whether all ranks end with the same bits for floats\n")
    columns = ["algorithm", "collective", "steps", "sent", "ports", "bit-identical", "needs"]
    print_table(
        columns,
        [[_cell(entry[c.replace("-", "_")]) for c in columns] for entry in entries],
        right=["steps", "sent", "ports"],
    )
    names = {entry["family"] for entry in entries}
    families = [algorithm for algorithm in catalogue() if algorithm.name in names]
    print()
    print_table(["algorithm", "what it does", "source"], [[_title(a), a.summary, a.source] for a in families])
    return None


def on_network(network: Topology, collective: str | None = None) -> list[dict[str, Any]]:
    """Describes every algorithm with its costs for each collective.

    Args:
        network: The network for which steps, bytes and ports are counted.
        collective: Only this collective. None: all.
    """
    found = {
        (one.name, performed): _entry(one, network, performed)
        for algorithm in catalogue(network)
        for performed in algorithm.collectives
        if collective in (None, performed)
        for one in _shown(algorithm, network, performed)
    }
    return list(found.values())


def _shown(algorithm: Algorithm, network: Topology, collective: str) -> list[Algorithm]:
    """The algorithm if it performs the collective; its family if no member of the family does."""
    family = Algorithm(algorithm.name.partition(":")[0])
    if not family.supports(network, collective):
        return [family]
    return [algorithm] if algorithm.supports(network, collective) else []


def _entry(algorithm: Algorithm, network: Topology, collective: str) -> dict[str, Any]:
    offered = algorithm.supports(network, collective)
    steps, sent = algorithm.cost_line(network, collective) if offered else (None, None)
    return {
        "algorithm": algorithm.name,
        "family": algorithm.name.partition(":")[0],
        "collective": collective,
        "steps": steps,
        "sent": sent,
        "ports": algorithm.ports(network) if offered else None,
        "bit_identical": algorithm.bit_identical(network, collective) if offered else None,
        "needs": algorithm.requirement(collective),
        "source": algorithm.source,
    }


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)


def _title(algorithm: Algorithm) -> str:
    if algorithm.parameter is None:
        return algorithm.name
    return f"{algorithm.name}:{algorithm.parameter[0]}"
