"""The ranks of a job, examined together.

They meet in the job's store, as the ranks of a communicator do. Rank 0 decides who came; those make a communicator and
measure every pair. One rank of each host then checks its machine. Each rank publishes what it found, and rank 0 makes
the report.
"""

import json
import os
import secrets
import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from ringroad._native import Communicator, Config, FileStore, RingroadError, RollCall, StoreError
from ringroad._native import TimeoutError as RingroadTimeout
from ringroad._network import NetworkView
from ringroad._support.text import bandwidth_text
from ringroad._support.ucx import _ucx_wheel
from ringroad.doctor import Finding, perform_all, remaining
from ringroad.doctor.checks import Place, longest, machine_checks
from ringroad.doctor.messages import measure, one_line, over, speed_text
from ringroad.measure import facts
from ringroad.start import rendezvous

ALL_PAIRS = 64
"""Up to so many ranks all pairs are measured; of more ranks only neighbours."""
_GRACE = 5.0
_POLL = 0.02
_SLOWER = 4.0  # times the median of the pairs over the same transport
_LATER = 10.0  # likewise
_SHOWN = 6  # differences of a network
_SCHEDULING = 200e-6  # ranks that share a core answer this late now and then
_OWN = {"RINGROAD_HOST", "RINGROAD_TRACE"}
"""Settings that may differ between ranks."""


# ------------------------------------------------------------------------------------------------ the store


def open_store(rank: int, size: int, timeout: float) -> Any:
    """The store, as `ringroad.init` would find it, but without waiting for ranks.

    Raises:
        ConfigError: None is set.
        StoreError: It cannot be reached in time.
    """
    where = rendezvous._where(rank, size, Config())
    if isinstance(where, str):
        return FileStore(where)
    try:
        return rendezvous._own_store(where, rank, timeout, None) if where else _torch_store(rank, timeout)
    except RingroadTimeout as error:
        raise StoreError(str(error)) from error


def _torch_store(rank: int, timeout: float) -> Any:
    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    distributed: Any = import_module("torch.distributed")
    serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # torchrun's agent serves it
    within = timedelta(seconds=timeout)
    try:
        store = distributed.TCPStore(host, int(port), None, serves, timeout=within, wait_for_workers=False)
    except (RuntimeError, ValueError) as error:
        what = "cannot serve the store at" if serves else "found no store at"
        text = f"rank {rank} {what} MASTER_ADDR:MASTER_PORT={host}:{port}: {one_line(error)}"
        raise StoreError(text) from error
    return distributed.PrefixStore("ringroad", store)


# ------------------------------------------------------------------------------------------------ who is there


@dataclass(frozen=True)
class RankInfo:
    """What a rank says of itself."""

    rank: int
    host: str
    pid: int
    nonce: str
    versions: dict[str, str | None]
    settings: dict[str, str]

    @staticmethod
    def own(rank: int) -> "RankInfo":
        values = {name: value for name, value in facts.chosen().items() if name not in _OWN}
        values |= {name: value for name, value in os.environ.items() if name.startswith("UCX_")}
        return RankInfo(rank, socket.gethostname(), os.getpid(), secrets.token_hex(8), facts.versions(), values)

    def __str__(self) -> str:
        return f"rank {self.rank} (host {self.host}, process {self.pid})"


@dataclass(frozen=True)
class Roster:
    """The ranks that came, by number."""

    size: int
    infos: dict[int, RankInfo]

    @property
    def missing(self) -> list[int]:
        return [rank for rank in range(self.size) if rank not in self.infos]

    @property
    def hosts(self) -> dict[str, list[int]]:
        """The ranks of each host."""
        hosts: dict[str, list[int]] = {}
        for rank, info in sorted(self.infos.items()):
            hosts.setdefault(info.host, []).append(rank)
        return hosts


class Board(Protocol):
    """Where the ranks publish texts for each other: the rendezvous of a roll call."""

    def tell(self, kind: str, text: str) -> None: ...
    def look(self, kind: str, rank: int) -> str | None: ...


def meet(store: Any, rank: int, size: int, timeout: float) -> tuple[Board, Roster]:
    """Rank 0 waits for all ranks, up to the timeout; the others for rank 0's decision. Raises StoreError."""
    info = RankInfo.own(rank)
    word = json.dumps(asdict(info))
    advice = "see that rank 0 runs and uses the same store"
    try:
        called = RollCall(store, rank, size, timeout, word)
    except RingroadTimeout as error:
        raise StoreError(f"{info}: rank 0 did not come within {timeout:g} s; {advice}") from error
    words = called.words
    if words[rank] != word:
        raise StoreError(f"{info}: rank 0 went on without it; start all ranks at the same time, or set --timeout")
    return called, Roster(size, {one: RankInfo(**json.loads(word)) for one, word in enumerate(words) if word})


# ------------------------------------------------------------------------------------------------ the pairs


@dataclass(frozen=True)
class Part:
    """What one rank found with the others."""

    error: str = ""
    transport: str = ""
    sharing: int = 0
    """With how many other ranks it shares memory."""
    hosts: list[str] = field(default_factory=list)
    pairs: list[dict[str, Any]] = field(default_factory=list)
    planned: int = 0
    tried: int = 0
    network: str = ""
    """The network. Behind it where it comes from, how it differs from what the ranks have found, and what is right."""
    origin: str = ""
    differences: list[str] = field(default_factory=list)
    spec: str | None = None


def communicate(roster: Roster, rank: int, store: Any, timeout: float) -> Part:
    """Makes the communicator of the ranks that came, and measures pairs, within the timeout."""
    present = sorted(roster.infos)
    deadline = time.monotonic() + timeout
    topology = f"switch:{len(present)}" if roster.missing else None  # the job's own has other ranks
    pairs: list[dict[str, Any]] = []
    try:
        with Communicator(
            store,
            present.index(rank),
            len(present),
            timeout=timeout,
            topology=topology,
            name="doctor",
            ucx_wheel=_ucx_wheel(),
        ) as comm:
            planned, tried = _measure_pairs(comm, present, deadline, pairs)
            carried = comm.transport
            return Part("", carried.text, carried.sharing, comm.hosts, pairs, planned, tried, **_network(comm.network))
    except (RingroadError, ValueError) as error:
        return Part(error=one_line(error), pairs=pairs)


def _network(view: NetworkView) -> dict[str, Any]:
    """What a part says of the network."""
    known: dict[str, Any] = {"network": _network_text(view), "origin": view.origin}
    if view.mismatch:
        known |= {"differences": view.mismatch.words, "spec": view.mismatch.spec}
    return known


def _network_text(view: NetworkView) -> str:
    """The network and the range of its links' rates, without the links of memories."""
    spec, hosts = view.topology.spec, view.topology.hosts
    shared = {rank for rank, host in enumerate(hosts) if hosts.count(host) > 1}
    links = view.topology._links()
    rates = [link[2] * link[3] for link in links if not shared & {link[0], link[1]}]
    texts = list(dict.fromkeys(bandwidth_text(rate) for rate in (min(rates), max(rates)))) if rates else []
    return f"{spec}, links of {' to '.join(texts)}" if texts else spec


def pairs_of(size: int) -> list[tuple[int, int]]:
    """All pairs of ranks, or those of neighbours if there are many."""
    if size <= ALL_PAIRS:
        return [(a, b) for a in range(size) for b in range(a + 1, size)]
    return [(min(a, b), max(a, b)) for a, b in ((a, (a + 1) % size) for a in range(size))]


def _measure_pairs(
    comm: Communicator, present: Sequence[int], deadline: float, found: list[dict[str, Any]]
) -> tuple[int, int]:
    """Adds what this rank measures to `found`. Returns the number of pairs, and of those that were tried in time."""
    pairs = pairs_of(comm.size)
    tried = 0
    for a, b in pairs:
        # One pair at a time, so that they do not disturb each other. All ranks agree on whether time is left.
        late = np.array(time.monotonic() > deadline - _GRACE / 2, np.uint8)
        if comm.allreduce(late, op="max", timeout=remaining(deadline, 1)).any():
            break
        tried += 1
        if comm.rank in (a, b):
            other = b if comm.rank == a else a
            if speed := measure(comm, other, remaining(deadline, 1)):
                way = over(comm.transport, comm.hosts[a] == comm.hosts[b])
                found.append({"ranks": [present[a], present[b]], "over": way, **speed})
    comm.barrier(timeout=remaining(deadline, 1))
    return len(pairs), tried


# ------------------------------------------------------------------------------------------------ the whole


@dataclass(frozen=True)
class Report:
    """What rank 0 reports."""

    findings: list[Finding]
    infos: list[dict[str, Any]]
    pairs: list[dict[str, Any]]


def examine(rank: int, size: int, timeout: float) -> Report | None:
    """Examines the job; every rank calls it. Only rank 0 gets the report, the others None.

    Raises:
        ConfigError: No store is set, or a setting is invalid.
        StoreError: This rank did not find the store, or not rank 0.
    """
    store = open_store(rank, size, timeout)
    board, roster = meet(store, rank, size, timeout)
    present = sorted(roster.infos)
    end = time.monotonic() + timeout + _GRACE  # all ranks begin now
    part = communicate(roster, rank, store, timeout) if len(present) > 1 else Part()
    board.tell("part", json.dumps(asdict(part)))
    hosts = roster.hosts
    checks = machine_checks(Place(size, len(hosts[roster.infos[rank].host]), len(hosts) > 1))
    if rank:
        if hosts[roster.infos[rank].host][0] == rank:
            findings = perform_all(checks)
            board.tell("machine", json.dumps([one.to_json() for one in findings]))
        return None
    parts = {one: Part(**found) for one, found in _collect(board, "part", present, remaining(end, 1)).items()}
    findings = [*perform_all(checks), *_others(board, roster, parts, longest(checks))]
    findings += [came(roster, timeout), *same_versions(roster), *same_settings(roster)]
    findings += [*connected(roster, parts), *network(roster, parts), *near(roster, parts), *paired(parts)]
    pairs = sorted((pair for one in parts.values() for pair in one.pairs), key=lambda pair: pair["ranks"])
    return Report(findings, [asdict(info) for _, info in sorted(roster.infos.items())], pairs)


def _collect(board: Board, kind: str, ranks: Sequence[int], seconds: float) -> dict[int, Any]:
    """What ranks have published under a name, of those that do so in time."""
    found: dict[int, Any] = {}
    deadline = time.monotonic() + seconds
    while len(found) < len(ranks) and time.monotonic() < deadline:
        for rank in ranks:
            if rank not in found and (text := board.look(kind, rank)):
                found[rank] = json.loads(text)
        time.sleep(_POLL)
    return found


def _others(board: Board, roster: Roster, parts: Mapping[int, Part], seconds: float) -> Iterator[Finding]:
    """What the other hosts have to say of themselves, if it is not ok; what several say, once. Ranks that have fallen
    silent before are not waited for."""
    firsts = {ranks[0]: host for host, ranks in roster.hosts.items() if ranks[0] != 0 and ranks[0] in parts}
    found = _collect(board, "machine", list(firsts), seconds)
    said: dict[Finding, list[str]] = {}
    for rank, host in firsts.items():
        if rank not in found:
            text = f"{roster.infos[rank]} did not end its checks within {seconds:g} s"
            yield Finding("machine", "failure", text, f"Run ringroad doctor --alone on {host}", host)
        for one in found.get(rank, []):
            if one["verdict"] != "ok":
                said.setdefault(Finding(**one), []).append(host)
    for finding, hosts in said.items():
        yield replace(finding, host=", ".join(hosts))


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
    remedy = "Install the same versions on all hosts"
    different = list(_different(roster, lambda info: info.versions))
    for name, text in different:
        yield Finding("same versions", "failure" if name == "ringroad" else "warning", text, remedy)
    if not different:
        yield Finding("same versions", "ok", "all ranks have the same")


def same_settings(roster: Roster) -> Iterator[Finding]:
    """RINGROAD_* and UCX_* variables that differ between ranks."""
    different = list(_different(roster, lambda info: info.settings))
    for _, text in different:
        yield Finding("same settings", "warning", text, "Set it to the same value for all ranks, or for none")
    if not different:
        yield Finding("same settings", "ok", "all ranks have the same")


def _different(roster: Roster, facts: Callable[[RankInfo], Mapping[str, str | None]]) -> Iterator[tuple[str, str]]:
    """The names of facts that differ, each with who has which value."""
    infos = list(roster.infos.values())
    for name in sorted({name for info in infos for name in facts(info)}):
        values: dict[str, list[RankInfo]] = {}
        for info in infos:
            values.setdefault(facts(info).get(name) or "unset", []).append(info)
        if len(values) > 1:
            parts = [f"{value} on {_whom(those)}" for value, those in sorted(values.items())]
            yield name, f"{name} is {'; '.join(parts)}"


def _whom(infos: Sequence[RankInfo]) -> str:
    first, *more = infos
    return str(first) + (f" and {len(more)} more" if more else "")


def connected(roster: Roster, parts: Mapping[int, Part]) -> Iterator[Finding]:
    """Whether the communicator came about and held, and which ranks fell silent."""
    if len(roster.infos) < 2:
        return
    silent = [info for rank, info in sorted(roster.infos.items()) if rank not in parts]
    for info in silent:
        remedy = (
            f"On {info.host} see whether process {info.pid} still runs and what it does: py-spy dump --pid {info.pid}"
        )
        yield Finding("communicator", "failure", f"{info} came but does not answer any more", remedy)
    errors: dict[str, list[int]] = {}
    for rank, part in sorted(parts.items()):
        if part.error:
            errors.setdefault(part.error, []).append(rank)
    for text, ranks in errors.items():
        remedy = (
            "See the findings on settings, UCX and rendezvous; check firewalls between the hosts "
            "(RINGROAD_TCP_PORTS), and name the network with RINGROAD_NET_DEVICES"
        )
        yield Finding("communicator", "failure", f"{_whom([roster.infos[rank] for rank in ranks])}: {text}", remedy)
    if not silent and not errors:
        kinds = Counter(part.transport for part in parts.values())
        yield Finding("communicator", "ok", "; ".join(kinds))


def network(roster: Roster, parts: Mapping[int, Part]) -> Iterator[Finding]:
    """How the hosts are connected, and whether that is known."""
    part = next((part for part in parts.values() if part.network), None)
    if part is None or len(roster.hosts) < 2 or roster.missing:
        return
    if part.origin == "assumed":
        remedy = (
            "See that UDP and TCP between the hosts are not blocked; or name the network in RINGROAD_TOPOLOGY, such as "
            "ring:8,bandwidth=10Gbit/s"
        )
        yield Finding("network", "note", f"not known; assumed is {part.network}", remedy)
    elif part.differences:
        yield _wrongly_named(part)
    else:
        how = "as it is named" if part.origin == "given" else "as the ranks have found"
        yield Finding("network", "ok", f"{part.network}, {how}")


def _wrongly_named(part: Part) -> Finding:
    shown, more = part.differences[:_SHOWN], len(part.differences) - _SHOWN
    text = "; ".join(shown) + (f"; {more} more differences" if more > 0 else "")
    remedy = (
        f"Set RINGROAD_TOPOLOGY={part.spec}"
        if part.spec
        else "Set RINGROAD_TOPOLOGY=auto, or name the file that ringroad discover --save network.json writes"
    )
    remedy += ", or mend the cables; ringroad discover --plot network.png draws what was found"
    return Finding("network", "warning", f"named is {part.network}, but {text}", remedy)


def near(roster: Roster, parts: Mapping[int, Part]) -> Iterator[Finding]:
    """Ranks of one host that do not share memory, though they might."""
    for rank, part in sorted(parts.items()):
        if not part.sharing or not part.hosts:
            continue
        here = part.hosts.count(part.hosts[sorted(roster.infos).index(rank)]) - 1
        if part.sharing < here:
            remedy = "Run the ranks of a host in one container, or with --pid=host and --ipc=host; see memfd above"
            text = f"{roster.infos[rank]} shares memory with {part.sharing} of {here} other ranks of its host"
            yield Finding("local ranks", "warning", text, remedy)


def paired(parts: Mapping[int, Part]) -> Iterator[Finding]:
    """Latency and bandwidth of the pairs over each transport, and those that are much slower than the others."""
    pairs = [pair for part in parts.values() for pair in part.pairs]
    planned, tried = (max((getattr(part, key) for part in parts.values()), default=0) for key in ("planned", "tried"))
    if tried < planned:
        text = f"only {tried} of {planned} pairs were measured in time"
        yield Finding("pairs", "note", text, "Allow more time with --timeout")
    for way in sorted({pair["over"] for pair in pairs}):
        yield from _group(way, [pair for pair in pairs if pair["over"] == way])


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
