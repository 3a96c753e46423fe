"""`ringroad lab routes`: one path for each pair of ranks, and the virtual channel of each hop."""

from pathlib import Path
from typing import Annotated

import typer

from ringroad import Topology
from ringroad._support.text import print_json, print_table, print_wrapped, seconds_text, significant
from ringroad.cli._options import SPEC, Json, file_option, fraction_option, time_option
from ringroad.lab import routes as tables


def routes(
    topology: Annotated[str, typer.Argument(**SPEC)],
    method: Annotated[str, typer.Option(help="balanced, shortest or up-down.")] = "balanced",
    channels: Annotated[str, typer.Option(help="Virtual channel assignment: turns or lash.")] = "turns",
    gap: Annotated[
        float, fraction_option(help="Stop within this fraction of the bound: 0.004 is 0.4 percent.")
    ] = 0.004,
    budget: Annotated[float | None, time_option(help="Time limit of the search.")] = None,
    save: Annotated[
        Path | None,
        file_option(help="Write the table as .json, for Routes.from_json, or as .csv with a line per hop."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a balanced, deadlock-free routing table.

    Balances an all-to-all over the links. Prints the busiest link's load beside a lower bound for any routes.
    """
    made = _made(Topology(topology), method, channels, gap, budget)
    if save is not None:
        made.save(save)
    if as_json:
        print_json(made)
    else:
        _print(made)


def _made(topology: Topology, method: str, channels: str, gap: float, budget: float | None) -> tables.Routes:
    if channels not in ("turns", "lash"):
        raise ValueError(f"--channels must be turns or lash, not {channels!r}")
    if method == "balanced":
        return tables.balanced(topology, gap=gap, budget=budget, channels=channels)  # type: ignore[arg-type]
    if method == "shortest":
        made = tables.shortest(topology, channels=channels)  # type: ignore[arg-type]
    elif method == "up-down":
        made = tables.up_down(topology)
    else:
        raise ValueError(f"--method must be balanced, shortest or up-down, not {method!r}")
    return made.with_bound(gap=gap, budget=budget)


def _print(made: tables.Routes) -> None:
    print_wrapped(f"{made.method} routes on {made.topology.with_routing('minimal').spec}, {made.topology.ranks} ranks")
    busiest, idlest = max(made.counts, default=0), min(made.counts, default=0)
    bound, ratio = made.bound or 0.0, made.ratio or 1.0
    above = f"; {significant(100 * (ratio - 1))} % above the bound"
    rows = [
        [
            "busiest link",
            seconds_text(made.load),
            f"for a byte of each pair: {busiest} paths, the idlest {idlest}{above}",
        ],
        ["any routes", seconds_text(bound), "at least: proven"],
        ["hops", significant(made.mean_hops), f"on average, {made.longest} at most"],
        ["channels", str(made.channels), "no deadlock" if made.is_deadlock_free else "may deadlock"],
    ]
    print_table(["", "", ""], rows)
