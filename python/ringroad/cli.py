"""The command line: `ringroad`, or `python -m ringroad`."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ringroad._native import RingroadError, __version__
from ringroad.commands.algorithms import algorithms
from ringroad.commands.alltoall import alltoall
from ringroad.commands.bench import bench
from ringroad.commands.convert import convert
from ringroad.commands.cost import cost
from ringroad.commands.doctor import doctor
from ringroad.commands.explain import explain
from ringroad.commands.find import find
from ringroad.commands.info import info
from ringroad.commands.reproduce import reproduce
from ringroad.commands.routes import routes
from ringroad.commands.schedule import schedule
from ringroad.commands.simulate import simulate
from ringroad.commands.testbed import testbed
from ringroad.commands.topology import topology
from ringroad.commands.trace import trace
from ringroad.commands.training import training
from ringroad.commands.tune import tune

app = typer.Typer(
    help="Collective communication with the fastest algorithm for the network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for _command in (
    info,
    doctor,
    algorithms,
    schedule,
    convert,
    cost,
    bench,
    reproduce,
    topology,
    simulate,
    explain,
    find,
    alltoall,
    routes,
    tune,
    trace,
    training,
    testbed,
):
    app.command()(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line, and exits with status 0, or 2 after an error that the user can correct.

    Args:
        arguments: The words of the command line. None: those of this process.
    """
    try:
        app(arguments)
    except (RingroadError, ValueError, OSError) as error:
        print(f"ringroad: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"ringroad {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
