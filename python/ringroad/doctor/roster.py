"""Which ranks of a job have come. They meet in the job's store, as the ranks of a communicator do."""

import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol

from ringroad._native import Config, FileStore, RollCall, StoreError
from ringroad._native import TimeoutError as RingroadTimeout
from ringroad.doctor.messages import one_line
from ringroad.measure import facts
from ringroad.start import rendezvous


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
