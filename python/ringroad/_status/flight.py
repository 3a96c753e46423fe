"""How a job stands, as the flight recorder of torch.distributed writes it: a file for each rank, which torch's analyser
reads (`torchfrtrace`, `torch.distributed.flight_recorder.fr_trace`).
"""

import pickle
from pathlib import Path
from typing import Any

from ringroad._status.asking import Group, Job
from ringroad._support.files import check_own

_VERSION = "2.10"
_NAMES = {
    "allreduce": "all_reduce",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "allgather": "_all_gather_base",
    "reduce_scatter": "_reduce_scatter_base",
    "gather": "gather",
    "scatter": "scatter",
    "alltoall": "all_to_all",
    "barrier": "barrier",
}
"""What torch calls the collectives of ringroad. Its analyser stops at names that it does not know; before torch 2.7 it
takes calls of NCCL only, so that all are called that.
"""
_LARGER = {"allgather": (1, 0), "gather": (1, 0), "reduce_scatter": (0, 1), "scatter": (0, 1), "alltoall": (1, 1)}
"""Which of input and output have a block for each rank."""


def dumps(job: Job) -> dict[int, dict[str, Any]]:
    """What the ranks have called, by rank, for those that have answered.

    Of several communicators the ranks are those of the largest; processes that are not in it come after them. Prefix
    sums are left out, which torch does not know, and receives from any rank.
    """
    ranks = {(process.host, process.pid): rank for rank, process in enumerate(job.processes)}
    configs: dict[int, dict[str, Any]] = {}
    entries: dict[int, list[dict[str, Any]]] = {}
    for group in job.groups:
        members = [ranks[process.host, process.pid] for process in group.processes]
        first = _first(group)
        for rank in group.parts:
            if (standing := group.standing(rank)) is None:
                continue
            own, config = members[rank], configs.setdefault(members[rank], {})
            config[group.key] = _config(group.key, group.name, members)
            rows = entries.setdefault(own, [])
            rows += [_collective(group, call, standing) for call in standing["recent"] if call["number"] >= first]
            for call in standing["calls"]:
                if call["peer"] is not None and call["kind"] in ("send", "recv"):
                    pair = sorted((rank, call["peer"]))
                    key = f"{group.key} {pair[0]}:{pair[1]}"
                    config[key] = _config(key, f"{group.name} {pair[0]}:{pair[1]}", [members[one] for one in pair])
                    rows.append(_message(key, config[key]["desc"], pair.index(rank), call, rows))
    frames = {ranks[p.host, p.pid]: [_frame(*frame) for frame in p.frames] for p in job.processes}
    for rank, rows in entries.items():
        rows[:] = [row for row in rows if row["profiling_name"]]
        for index, row in enumerate(rows):
            row["record_id"] = index
            row["frames"] = frames[rank] if row["state"] == "started" else []
    return {
        rank: {"version": _VERSION, "pg_config": configs[rank], "entries": entries[rank]} | {"pg_status": {}}
        for rank in entries
    }


def write(job: Job, folder: Path) -> list[Path]:
    """Writes a file for each rank that has answered. Returns them.

    Raises:
        OSError: The folder cannot be made, or written to, or has a file of this name that is no such dump.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank, dump in dumps(job).items():
        files.append(folder / f"ringroad_{rank}")
        check_own(files[-1], b"pg_config")
        files[-1].write_bytes(pickle.dumps(dump))
    return files


def _first(group: Group) -> int:
    """The first call that all ranks that have answered still remember: the analyser compares from there on."""
    standings = [standing for rank in group.parts if (standing := group.standing(rank))]
    return max((standing["recent"][0]["number"] for standing in standings if standing["recent"]), default=0)


def _config(name: str, description: str, ranks: list[int]) -> dict[str, Any]:
    return {"name": name, "desc": description, "ranks": str(sorted(ranks))}


def _frame(file: str, line: int, name: str) -> dict[str, Any]:
    return {"filename": file, "line": line, "name": name}


def _entry(group: tuple[str, str], name: str, sizes: list[list[int]], dtype: str, state: str) -> dict[str, Any]:
    before, after = [[[size]] for size in sizes]
    return {
        "pg_id": 0,
        "process_group": group,
        "collective_seq_id": 0,
        "p2p_seq_id": 0,
        "op_id": 0,
        "profiling_name": name,
        "time_created_ns": 0,
        "input_sizes": before,
        "input_dtypes": [dtype],
        "output_sizes": after,
        "output_dtypes": [dtype],
        "state": state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": state == "completed",
        "timeout_ms": 0,
        "is_p2p": False,
    }


def _collective(group: Group, call: dict[str, Any], standing: dict[str, Any]) -> dict[str, Any]:
    name = _NAMES.get(call["kind"], "")
    elements = call["elements"]
    # Blocks of different lengths: the whole on both sides, which all ranks know.
    larger = (0, 0) if call["uneven"] else _LARGER.get(call["kind"], (0, 0))
    if call["uneven"] and call["kind"] in ("allgather", "reduce_scatter"):
        name = {"allgather": "all_gather_v", "reduce_scatter": "reduce_scatter_v"}[call["kind"]]
    before, after = (elements * group.size if more else elements for more in (larger[1], larger[0]))
    running = {one["number"] for one in standing["calls"]}
    state = "started" if call["number"] in running else "completed"
    if standing["failure"] and call["number"] > standing["ended"]:
        state = "started"
    entry = _entry((group.key, group.name), f"nccl:{name}" * bool(name), [before, after], call["dtype"], state)
    return entry | {"collective_seq_id": call["number"], "op_id": call["number"]}


def _message(
    key: str, description: str, place: int, call: dict[str, Any], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """A message in flight, in a group of its two ranks."""
    number = 1 + sum(row["process_group"][0] == key for row in rows)
    is_send = call["kind"] == "send"
    name = f"send {place}->{1 - place}" if is_send else f"recv {place}<-{1 - place}"
    entry = _entry((key, description), f"nccl:{name}", [call["elements"]] * 2, call["dtype"], "started")
    return entry | {"collective_seq_id": number, "p2p_seq_id": number, "op_id": number, "is_p2p": True}
