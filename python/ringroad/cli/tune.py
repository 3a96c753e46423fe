"""`ringroad tune`: measures this network, and stores a profile."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

import ringroad
from ringroad._native import Config, ConfigError, Profile, collective_name, keep_profile
from ringroad._support.files import check_own
from ringroad._support.processes import MOST as MOST_PROCESSES
from ringroad._support.text import (
    bytes_text,
    parse_bytes,
    print_json,
    print_table,
    print_wrapped,
    seconds_text,
    significant,
)
from ringroad.cli._options import Json, time_option, whole_option
from ringroad.measure import tuning
from ringroad.measure.bench.options import names
from ringroad.measure.tuning import TuningOptions
from ringroad.start import launchers

# Ignore the present profile while a new one is made. Also ignore settings that restrict the choice or state costs: the
# new profile is for later jobs, whose environments differ.
_IGNORED = ("ALGO", "TUNER_FILE", "DETERMINISTIC", "SEGMENT", "COST")
_WITHOUT = {"RINGROAD_PROFILE": "none"} | {f"RINGROAD_{name}": "" for name in _IGNORED}


def tune(
    ranks: Annotated[
        int | None,
        whole_option(
            help="Ranks to start here; default: those of torchrun, srun or mpirun, else one per core.",
            least=1,
            most=MOST_PROCESSES,
        ),
    ] = None,
    topology: Annotated[str | None, typer.Option(metavar="SPEC", help="Network; default: the discovered one.")] = None,
    collectives: Annotated[str, typer.Option(help=f"Any of {', '.join(tuning.COLLECTIVES)}.")] = ",".join(
        tuning.DEFAULT_COLLECTIVES
    ),
    sizes: Annotated[str, typer.Option(help="Vector sizes: 8,1K,4M (4 MiB), 4MB; default: 8 B to 32 MiB.")] = "",
    budget: Annotated[float, time_option(help="Time limit in seconds, once the ranks are connected.")] = 60.0,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Profile to write; default: where communicators look for it."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the choice in RINGROAD_TUNER_FILE format.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write no profile.")] = False,
    as_json: Json = False,
) -> None:
    """Measure algorithms and store a profile for later jobs.

    Fits the cost model. Later communicators use the profile.
    """
    lengths = tuple(parse_bytes(size) for size in names(sizes)) or tuning.SIZES
    options = TuningOptions(_collectives(collectives), lengths, budget)
    in_job = ranks is None and _launched(os.environ)
    if not in_job:  # otherwise only rank 0 writes, and perhaps on another host
        if not dry_run:
            _store(_path("profile.json", output), None, output)
        _check_directories([file for file in (csv, None if dry_run else output) if file is not None])
    measured = _measure(ranks, topology, options, quiet=as_json, in_job=in_job)
    if measured is None:
        return  # not rank 0
    text, warnings = measured
    profile = Profile.from_json(text)
    path = None if dry_run else _path(profile.file_name, output)
    if path is not None:
        _store(path, profile.to_json(), output)
    if csv is not None:
        _write(csv, profile.to_csv())
    if as_json:
        print_json(_report(profile, path) | {"warnings": warnings})
    else:
        _print(profile, path, warnings)


def _collectives(text: str) -> list[str]:
    return [collective_name(name) for name in names(text)]


def _measure(
    ranks: int | None, topology: str | None, options: TuningOptions, quiet: bool, in_job: bool
) -> tuple[str, list[str]] | None:
    """The profile that the ranks of this job measured, with warnings (on rank 0, else None), or that local ranks
    measured without a job."""
    if in_job:
        with ringroad.init(topology=topology, settings=_WITHOUT) as communicator:
            measured = tuning.tune(communicator, options, quiet)
            return measured if communicator.rank == 0 else None
    if ranks is None:
        ranks = max(2, len(os.sched_getaffinity(0)))
    if ranks < 2:
        raise ValueError(f"tune: --ranks {ranks}: there is nothing to measure with fewer than two")
    with ringroad.local(ranks, topology=topology, env=_WITHOUT) as cluster:
        return cluster.run(tuning.tune, options, quiet)[0]


def _launched(environ: Mapping[str, str]) -> bool:
    """Whether a launcher has started this process as one of several ranks."""
    return any(environ.get(name, "1") not in ("", "1") for _, _, name in launchers._ROWS)


def _path(file_name: str, output: Path | None) -> Path:
    """The path of the profile: `output`, or the place where communicators look for it. Raises ConfigError if
    unknown."""
    if output is not None:
        return output
    config = Config()
    if config.profile is not None:
        return Path(config.profile)
    if config.profiles is None:
        raise ConfigError("there is no place for profiles: set RINGROAD_CACHE or HOME, or pass --output FILE")
    return Path(config.profiles, file_name)


def _check_directories(files: Sequence[Path]) -> None:
    """Makes the files' directories. Raises an error if they cannot be written to."""
    for directory in [file.parent for file in files]:
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise ValueError(f"{directory} cannot be written to; name another file")


def _store(path: Path, text: str | None, output: Path | None) -> None:
    """Writes the profile. Without a text it only checks, before measuring for a minute, that it may be written there:
    only what the user names by --output may be replaced whatever it is."""
    if Config().profile is None and output is None:
        return keep_profile(path, text)
    if output is None:
        check_own(path, b'"ringroad": "')
    if text is not None:
        _write(path, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# -------------------------------------------------------------------------------------------------- the report


def _sizes(profile: Profile) -> Iterator[dict[str, Any]]:
    """For every collective and size the fastest algorithm, the choice, and the choice by the model alone."""
    cases = list(dict.fromkeys((collective, size) for collective, _, size, _ in profile.measurements))
    times = {(collective, size, name): seconds for collective, name, size, seconds in profile.measurements}
    for collective, size in cases:
        here = {name: seconds for (c, s, name), seconds in times.items() if (c, s) == (collective, size)}
        best = min(here, key=lambda name: here[name])
        choice = profile.explain(collective, size)
        by_model = next((c.algorithm for c in choice.candidates if c.algorithm in here), best)
        predicted = {c.algorithm: c.seconds for c in choice.candidates}
        yield {
            "collective": collective,
            "bytes": size,
            "best": best,
            "seconds": here[best],
            "chosen": choice.algorithm,
            "chosen_ratio": here[choice.algorithm] / here[best] if choice.algorithm in here else None,
            "predicted": predicted.get(best),
            "by_model": by_model,
            "by_model_ratio": here[by_model] / here[best],
        }


def _report(profile: Profile, path: Path | None) -> dict[str, Any]:
    model = profile.model
    median, p90, worst = profile.errors
    return {
        "place": profile.place,
        "file": None if path is None else str(path),
        "model": model.__getnewargs_ex__()[1],
        "error": {"median": median, "p90": p90, "worst": worst, "measurements": len(profile.measurements)},
        "sizes": list(_sizes(profile)),
        "rules": [
            {"collective": collective, "from_bytes": first, "to_bytes": last, "algorithm": name}
            for collective, first, last, name in profile.rules
        ],
    }


def _print(profile: Profile, path: Path | None, warnings: Sequence[str]) -> None:
    model = profile.model
    median, p90, worst = profile.errors
    print_wrapped(f"\n{profile.place}\n")
    print(f"starting a step    {seconds_text(model.step_latency)}")
    print(f"a further message  {seconds_text(model.message_latency)}")
    print(f"a hop              {seconds_text(model.hop_latency or 0.0)}")
    links = "links " if model.cores is None or model.over_links else "copies"
    print(f"{links}             {_speed(1 / model.bandwidth if model.bandwidth else 0.0)}")
    print(f"reducing           {_speed(model.reduce_cost)}")
    print(f"wire formats       {_speed(model.codec_cost)}")
    print_wrapped(
        f"fitted to {len(profile.measurements)} measurements; off by {100 * median:.0f} % in the median, "
        f"{100 * p90:.0f} % at most for nine tenths, {100 * worst:.0f} % at worst\n"
    )
    columns = ["size", "fastest", "time", "chosen", "by the model alone"]
    for collective, group in groupby(_sizes(profile), lambda row: row["collective"]):
        rows = [
            [
                bytes_text(row["bytes"]),
                row["best"],
                seconds_text(row["seconds"]),
                _with_ratio(row["chosen"], row["chosen_ratio"]),
                _with_ratio(row["by_model"], row["by_model_ratio"]),
            ]
            for row in group
        ]
        print(collective)
        print_table(columns, rows, right=["size", "time"])
        print()
    print_wrapped("in brackets: how many times as long as the fastest it takes")
    for warning in warnings:
        print_wrapped(f"warning: {warning}")
    print_wrapped("not stored (--dry-run)" if path is None else f"stored as {path}")


def _with_ratio(name: str, ratio: float | None) -> str:
    return name if ratio is None or ratio == 1 else f"{name} ({ratio:.2f})"


def _speed(seconds_per_byte: float) -> str:
    return "too fast to tell" if seconds_per_byte <= 1e-15 else f"{significant(1e-9 / seconds_per_byte)} GB/s"
