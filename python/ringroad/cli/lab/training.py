"""`ringroad lab training`: predicts an iteration of data-parallel training on several networks."""

from pathlib import Path
from typing import Annotated

import typer

from ringroad._native import CostModel
from ringroad._support.text import about_bytes, print_json, print_table, print_wrapped, seconds_text
from ringroad.cli._options import Bandwidth, HopLatency, Json, StepLatency, picture_option, whole_option
from ringroad.lab.training import SHIPPED, Comparison, Iteration, Line, Model, Network, compare
from ringroad.lab.training.iteration import BUCKET, AnyNetwork


def training(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Shipped model or .toml file; default: list models.")
    ] = None,
    topology: Annotated[
        list[str] | None,
        typer.Option("--topology", metavar="SPEC", help="Network (see `ringroad topology`); may be repeated."),
    ] = None,
    line: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:SECONDS:PER_BYTE", help="Network where an allreduce takes SECONDS + bytes * PER_BYTE."
        ),
    ] = None,
    bucket: Annotated[
        str,
        typer.Option(metavar="BUCKET", help="Gradients per allreduce: layer, model, backlog, or a number of bytes."),
    ] = BUCKET,
    algorithm: Annotated[
        str | None, typer.Option(help="Allreduce algorithm; default: the cheapest for each bucket.")
    ] = None,
    batch: Annotated[int | None, whole_option(help="Samples per rank; default: the model's.", least=1)] = None,
    throughput: Annotated[
        float | None,
        typer.Option(help="Operations per second, for layers that state flops; inf: no compute time."),
    ] = None,
    step_latency: StepLatency = None,
    hop_latency: HopLatency = None,
    bandwidth: Bandwidth = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="Show every allreduce.")] = False,
    plot: Annotated[Path | None, picture_option(help="Draw the timeline of computing and sending")] = None,
    as_json: Json = False,
) -> None:
    """Predict an iteration of data-parallel training.

    Overlaps computing gradients with reducing them.
    """
    if model is None:
        return _list(as_json)
    if not topology and not line:
        raise ValueError("name at least one network: --topology torus:4x4, or --line NAME:SECONDS:PER_BYTE")
    costs = CostModel(step_latency=step_latency, hop_latency=hop_latency, bandwidth=bandwidth)
    trained = Model.load(model, batch=batch, throughput=throughput)
    places: list[AnyNetwork] = [*(topology or []), *(_network(text) for text in line or [])]
    comparison = compare(trained, places, bucket=bucket, costs=costs, algorithm=algorithm)
    if plot is not None:
        comparison.plot().savefig(plot, dpi=120)
    if as_json:
        print_json(_report(comparison))
        return None
    print_wrapped(comparison.title)
    if trained.source:
        print_wrapped(trained.source)
    print()
    print_table(*comparison.table(), right=["iteration", "exposed", "efficiency", "communication", "allreduces"])
    for iteration in comparison.iterations if timeline else ():
        print_wrapped(f"\n{iteration.network.name}")
        _print_timeline(iteration)
    return None


def _list(as_json: bool) -> None:
    models = [Model.load(name) for name in SHIPPED]
    if as_json:
        print_json([_head(model) for model in models])
        return
    rows = [[m.name, str(len(m.layers)), about_bytes(m.bytes), str(m.batch), m.source.split(". ")[0]] for m in models]
    print_table(["model", "layers", "gradients", "batch", "source"], rows, right=["layers", "gradients", "batch"])


def _network(text: str) -> Network:
    name, *numbers = text.rsplit(":", 2)
    try:
        fixed, per_byte = (float(number) for number in numbers)
        if not (name and 0 <= fixed < float("inf") and 0 <= per_byte < float("inf")):
            raise ValueError
    except ValueError:
        raise ValueError(f"--line {text!r} is invalid; write for example --line mine:120e-6:163e-12") from None
    return Network(name, (Line(name, fixed, per_byte),))


def _print_timeline(iteration: Iteration) -> None:
    rows = [
        [
            seconds_text(a.ready),
            seconds_text(a.start),
            seconds_text(a.end),
            about_bytes(a.bytes),
            a.algorithm,
            a.layers[0] + (f" to {a.layers[-1]} ({len(a.layers)})" if len(a.layers) > 1 else ""),
        ]
        for a in iteration.allreduces
    ]
    print_table(
        ["ready", "start", "end", "bytes", "algorithm", "layers"], rows, right=["ready", "start", "end", "bytes"]
    )


def _head(model: Model) -> dict[str, object]:
    return {
        "model": model.name,
        "source": model.source,
        "batch": model.batch,
        "layers": len(model.layers),
        "bytes": model.bytes,
        "forward": model.forward,
        "backward": model.backward,
    }


def _report(comparison: Comparison) -> dict[str, object]:
    first = comparison.iterations[0]
    networks = [iteration.json() for iteration in comparison.iterations]
    return _head(first.model) | {"bucket": first.bucket, "best": comparison.best.network.name, "networks": networks}
