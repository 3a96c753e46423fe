"""What the ranks of a job show together: who is missing, what differs, and which pairs are slow."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ringroad.doctor import Finding
from ringroad.doctor.messages import speed_text
from ringroad.doctor.pairs import PairFindings
from ringroad.doctor.roster import RankInfo, Roster

_LOST = 0.02  # of the bytes that were sent
_SLOWER = 4.0  # times the median of the pairs over the same transport
_LATER = 10.0  # likewise
_SHOWN = 6  # differences of a network
_SCHEDULING = 200e-6  # ranks that share a core answer this late now and then


def came(roster: Roster, timeout: float) -> Finding:
    """Which ranks are missing."""
    hosts = roster.hosts
    text = f"{len(roster.infos)} of {roster.size} came, on {len(hosts)} host{'s' if len(hosts) > 1 else ''}"
    if not roster.missing:
        return Finding("ranks", "ok", text)
    who = f"rank{'s' if len(roster.missing) > 1 else ''} {', '.join(map(str, roster.missing))}"
    remedy = (
        f"See what {who} printed, and that it runs with the same MASTER_ADDR and MASTER_PORT or RINGROAD_STORE; "
        "--timeout allows more time"
    )
    return Finding("ranks", "failure", f"{who} did not come within {timeout:g} s; {text}", remedy)


def same_versions(roster: Roster) -> Iterator[Finding]:
    """Versions that differ between hosts."""
    return _same(roster, "same versions", lambda info: info.versions, "Install the same versions on all hosts")


def same_settings(roster: Roster) -> Iterator[Finding]:
    """RINGROAD_* and UCX_* variables that differ between ranks."""
    remedy = "Set it to the same value for all ranks, or for none"
    return _same(roster, "same settings", lambda info: info.settings, remedy)


def _same(
    roster: Roster, what: str, facts: Callable[[RankInfo], Mapping[str, str | None]], remedy: str
) -> Iterator[Finding]:
    """The facts that differ, each with who has which value."""
    infos, differ = list(roster.infos.values()), False
    for name in sorted({name for info in infos for name in facts(info)}):
        values: dict[str, list[RankInfo]] = {}
        for info in infos:
            values.setdefault(facts(info).get(name) or "unset", []).append(info)
        if len(values) > 1:
            differ = True
            text = "; ".join(f"{value} on {_whom(those)}" for value, those in sorted(values.items()))
            yield Finding(what, "failure" if name == "ringroad" else "warning", f"{name} is {text}", remedy)
    if not differ:
        yield Finding(what, "ok", "all ranks have the same")


def _whom(infos: Sequence[RankInfo]) -> str:
    first, *more = infos
    return str(first) + (f" and {len(more)} more" if more else "")


def connected(roster: Roster, parts: Mapping[int, PairFindings]) -> Iterator[Finding]:
    """Whether the communicator came about and held, and which ranks fell silent."""
    if len(roster.infos) < 2:
        return
    silent = [info for rank, info in sorted(roster.infos.items()) if rank not in parts]
    for info in silent:
        remedy = (
            f"On {info.host} see whether process {info.pid} still runs and what it does: py-spy dump --pid {info.pid}"
        )
        yield Finding("communicator", "failure", f"{info} came but no longer answers", remedy)
    errors: dict[str, list[int]] = {}
    for rank, part in sorted(parts.items()):
        if part.error:
            errors.setdefault(part.error, []).append(rank)
    for text, ranks in errors.items():
        remedy = (
            "See the findings on settings, UCX and rendezvous; check firewalls between the hosts "
            "(RINGROAD_TCP_PORTS), compare the MTU of all devices on the way (long packets may be lost), "
            "and name the network with RINGROAD_NET_DEVICES"
        )
        yield Finding("communicator", "failure", f"{_whom([roster.infos[rank] for rank in ranks])}: {text}", remedy)
    if not silent and not errors:
        kinds = Counter(part.transport for part in parts.values())
        yield Finding("communicator", "ok", "; ".join(kinds))


def network(roster: Roster, parts: Mapping[int, PairFindings]) -> Iterator[Finding]:
    """How the hosts are connected, and whether that is known."""
    part = next((part for part in parts.values() if part.network), None)
    if part is None or len(roster.hosts) < 2 or roster.missing:
        return
    if part.origin == "assumed":
        remedy = (
            "Check that UDP and TCP between the hosts are not blocked, or name the network in RINGROAD_TOPOLOGY, "
            "such as ring:8,bandwidth=10Gbit/s"
        )
        yield Finding("network", "note", f"unknown; assuming {part.network}", remedy)
    elif part.differences:
        yield _wrongly_named(part)
    else:
        how = "as named" if part.origin == "given" else "as discovered"
        yield Finding("network", "ok", f"{part.network}, {how}")


def _wrongly_named(part: PairFindings) -> Finding:
    shown, more = part.differences[:_SHOWN], len(part.differences) - _SHOWN
    text = "; ".join(shown) + (f"; {more} more differences" if more > 0 else "")
    remedy = (
        f"Set RINGROAD_TOPOLOGY={part.spec}"
        if part.spec
        else "Set RINGROAD_TOPOLOGY=auto, or name the file that ringroad discover --save network.json writes"
    )
    remedy += ", or mend the cables; ringroad discover --plot network.png draws what was found"
    return Finding("network", "warning", f"RINGROAD_TOPOLOGY names {part.network}, but {text}", remedy)


def local(roster: Roster, parts: Mapping[int, PairFindings]) -> Iterator[Finding]:
    """Ranks of one host that do not share memory, though they could."""
    for rank, part in sorted(parts.items()):
        if not part.sharing or not part.hosts:
            continue
        here = part.hosts.count(part.hosts[sorted(roster.infos).index(rank)]) - 1
        if part.sharing < here:
            remedy = "Run the ranks of a host in one container, or with --pid=host and --ipc=host; see memfd above"
            text = f"{roster.infos[rank]} shares memory with {part.sharing} of {here} other ranks of its host"
            yield Finding("local ranks", "warning", text, remedy)


def paired(parts: Mapping[int, PairFindings]) -> Iterator[Finding]:
    """Latency and bandwidth of the pairs over each transport, and those that are much slower than the others."""
    pairs = [pair for part in parts.values() for pair in part.pairs]
    planned, tried = (max((getattr(part, key) for part in parts.values()), default=0) for key in ("planned", "tried"))
    if tried < planned:
        text = f"only {tried} of {planned} pairs were measured in time"
        yield Finding("pairs", "note", text, "Allow more time with --timeout")
    for way in sorted({pair["over"] for pair in pairs}):
        yield from _group(way, [pair for pair in pairs if pair["over"] == way])


def sent_again(parts: Mapping[int, PairFindings]) -> Iterator[Finding]:
    """Whether much of what ranks sent to each other over tcp was lost on the way."""
    found = [(part, rank, peer) for rank, one in parts.items() for peer, part in one.again if part > _LOST]
    if found:
        part, rank, peer = max(found)
        text = f"rank {rank} retransmitted {part:.1%} of its bytes to rank {peer}"
        if more := len(found) - 1:
            text += f"; more than {_LOST:.0%} were lost on {more} further connection{'s' * (more > 1)}"
        remedy = "Compare cables, ports, MTU and queues of the network on the way; run it again when it is idle"
        yield Finding("lost packets", "warning", text, remedy)


def _group(way: str, pairs: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    usual = {key: statistics.median(pair[key] for pair in pairs) for key in ("latency", "bandwidth")}
    count = f"{len(pairs)} pair{'s' if len(pairs) > 1 else ''} over {way}"
    slow = [
        pair
        for pair in pairs
        if pair["bandwidth"] * _SLOWER < usual["bandwidth"]
        or pair["latency"] > max(_SCHEDULING, _LATER * usual["latency"])
    ]
    if not slow:
        yield Finding("pairs", "ok", f"{count}: {speed_text(usual)} (median)")
        return
    worst = min(slow, key=lambda pair: pair["bandwidth"])
    involved = Counter(rank for pair in slow for rank in pair["ranks"])
    (often, times), *_ = involved.most_common(1)
    who = f", {times} of them with rank {often}" if times > 1 else ""
    text = (
        f"{len(slow)} of {count} are much slower than the median ({speed_text(usual)}){who}; the slowest is "
        f"{worst['ranks'][0]}-{worst['ranks'][1]}: {speed_text(worst)}"
    )
    if way == "shared memory":
        remedy = "See the finding on cores; run it again when no other program uses them"
        yield Finding("pairs", "note", text, remedy)
    else:
        remedy = "Compare the cables, ports, MTU and load of these hosts with others; run it again when they are idle"
        yield Finding("pairs", "warning", text, remedy)
