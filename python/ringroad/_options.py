"""Options that several commands share."""

from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(metavar="ALGORITHM", help="As `ringroad algorithms` lists them.")]
Collective = Annotated[str, typer.Option(help="The collective to perform.")]
Root = Annotated[int, typer.Option(help="The root, for collectives that have one.")]
Format = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help="json, msccl, mscclpp, goal or chakra; unset: as the name of the file ends."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
On = Annotated[
    str,
    typer.Option(
        "--topology", metavar="SPEC", help="As `ringroad topology` lists them (torus:4x4x2), or a graph's file."
    ),
]
StepLatency = Annotated[float | None, typer.Option(help="Seconds to start a step.")]
HopLatency = Annotated[float | None, typer.Option(help="Seconds per hop; unset: the topology's.")]
Bandwidth = Annotated[float | None, typer.Option(help="Bytes per second of a link; unset: the topology's.")]
