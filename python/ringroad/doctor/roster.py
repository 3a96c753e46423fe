"""Which ranks of a job have come. They meet in the job's store, as the ranks of a communicator do."""

import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from typing import Any

from ringroad._native import Config, PresenceCheck, StoreError
from ringroad._native import TimeoutError as RingroadTimeout
from ringroad._support.files import parse_json
from ringroad.measure import facts
from ringroad.start import rendezvous


def open_store(rank: int, size: int, timeout: float) -> Any:
    """The store, as `ringroad.init` would find it, but without waiting for ranks.

    Raises:
        ConfigError: None is set.
        StoreError: It cannot be reached in time.
    """
    try:
        return rendezvous._store(rank, size, timeout, None)
    except RingroadTimeout as error:
        raise StoreError(str(error)) from error


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
        may_differ = {setting.name for setting in Config.defaults().settings if setting._scope == "rank"}
        values = {name: value for name, value in facts.chosen().items() if name not in may_differ}
        values |= {name: value for name, value in os.environ.items() if name.startswith("UCX_")}
        return RankInfo(rank, socket.gethostname(), os.getpid(), secrets.token_hex(8), facts.versions(), values)

    def __str__(self) -> str:
        return f"rank {self.rank} (host {self.host}, process {self.pid})"


_INFO = {"rank": int, "host": str, "pid": int, "nonce": str, "versions": dict, "settings": dict}


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


def meet(store: Any, rank: int, size: int, timeout: float) -> tuple[PresenceCheck, Roster]:
    """Rank 0 waits for all ranks, up to the timeout; the others for rank 0's decision. Raises StoreError."""
    info = RankInfo.own(rank)
    word = json.dumps(asdict(info))
    advice = "check that rank 0 runs and uses the same store"
    try:
        called = PresenceCheck(store, rank, size, timeout, word)
    except RingroadTimeout as error:
        raise StoreError(f"{info}: rank 0 did not come within {timeout:g} s; {advice}") from error
    words = called.words
    if words[rank] != word:
        raise StoreError(f"{info}: rank 0 continued without it; start all ranks at the same time, or set --timeout")
    said = {one: read(f"rank {one}", word, _INFO) for one, word in enumerate(words) if word}
    return called, Roster(size, {one: RankInfo(**{name: info[name] for name in _INFO}) for one, info in said.items()})


def read(who: str, text: str, shape: Any) -> Any:
    """What a rank has published, with the keys of this shape. Raises StoreError if it is something else."""
    try:
        return parse_json(text, f"what {who} has published in the store", shape)
    except ValueError as error:
        raise StoreError(f"{error}; check that no other job uses this store") from None
