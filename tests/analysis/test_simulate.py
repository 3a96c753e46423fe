"""Simulations from Python, on the command line and as pictures. The core's own tests check what it computes."""

import json
import math

import pytest
import ringroad
from ringroad import cli

MODEL = ringroad.CostModel(step_latency=1e-6, hop_latency=1e-6, bandwidth=1e9, reduce_cost=1e-9)


def simulate(algorithm="ring", topology="ring:4", bytes=4000, **options):
    return ringroad.lab.simulate(algorithm, topology, bytes, **{"model": MODEL} | options)


def test_figures_by_hand():
    # 3 steps with a start-up, a hop, 1,000 bytes and their reduction, and 3 without the reduction.
    done = simulate()
    assert done.seconds == pytest.approx(3 * 4e-6 + 3 * 3e-6) == pytest.approx(done.predicted)
    assert done.step_ends == pytest.approx([4e-6, 8e-6, 12e-6, 15e-6, 18e-6, 21e-6])
    assert done.finished == pytest.approx([done.seconds] * 4) and done.messages == 24
    assert sorted(done.loads) == [0.0] * 4 + [6000.0] * 4
    assert {(load.source, load.target, load.bytes) for load in done.link_loads} == {
        (rank, (rank + 1) % 4, 1000.0) for rank in range(4)
    }
    assert {load.seconds for load in done.link_loads} == {1e-6} and len(done.link_loads) == 24
    first = done.events[0]
    assert (first.kind, first.rank, first.peer, first.step, first.bytes, first.start) == ("send", 0, 1, 0, 1000, 0.0)
    assert {event.kind for event in done.events} == {"send", "receive", "reduce"}
    assert "ring: allreduce of 4000 B on ring:4: 21 us" in repr(done)


def test_arguments():
    assert simulate(topology=4).seconds == simulate(topology=ringroad.Topology("ring:4")).seconds
    assert simulate(bytes="4KiB").bytes == 4096
    schedule = ringroad.Schedule.build("binomial", "switch:4", "broadcast", 2)
    assert next(e.rank for e in ringroad.lab.simulate(schedule, "switch:4", 100).events if e.kind == "send") == 2
    assert simulate("binomial", "switch:4", collective="broadcast", root=1).schedule.root == 1
    assert simulate(late={2: 1e-3}).seconds == pytest.approx(1e-3 + simulate().seconds)
    assert simulate(slow_ranks={0: 2.0}).seconds == pytest.approx(3 * 6e-6 + 3 * 4e-6)
    assert simulate(slow_links={(1, 2): 0.5}).seconds == pytest.approx(simulate().seconds + 6e-6)
    assert simulate(failed_links=[(1, 2)]).seconds == pytest.approx(simulate().seconds + 6 * 2e-6)
    cut, stored = (
        simulate("binomial", "ring:8", collective="broadcast", store_and_forward=store) for store in (False, True)
    )
    assert stored.seconds > cut.seconds
    parts = simulate(free_running=True, segment=100)
    assert parts.messages == 240 and parts.seconds < simulate(free_running=True).seconds
    skewed = [simulate(skew=1e-3, seed=seed).seconds for seed in (1, 1, 2)]
    assert skewed[0] == skewed[1] != skewed[2] and all(1e-4 < seconds < 1.1e-3 for seconds in skewed)
    brief = simulate(details=False)
    assert (brief.seconds, brief.events, brief.link_loads) == (simulate().seconds, [], [])
    early, waits = (
        simulate(
            "binomial", "switch:2", 1000, collective="broadcast", free_running=True, late={1: 1e-3}, eager=size
        ).seconds
        for size in (1000, 999)
    )
    assert early < waits


@pytest.mark.parametrize(
    ("error", "names", "options"),
    [
        (ringroad.ScheduleError, ["ring"], {"algorithm": "rong"}),
        (ringroad.ScheduleError, [5], {"algorithm": ringroad.Schedule.build("ring", 5)}),
        (ringroad.TopologyError, ["rank 1", "rank 2"], {"failed_links": [(1, 2), (1, 0)]}),
        (ringroad.TopologyError, ["torus"], {"topology": "thorus:4"}),
        (ValueError, ["1, 3"], {"failed_links": [(0, 2)]}),
        (ValueError, ["replan", "failed_links"], {"replan": True}),
        (ValueError, ["0 to 3"], {"late": {4: 1.0}}),
        (ValueError, [], {"late": {1: math.nan}}),
        (ValueError, [], {"slow_links": {(0, 1): -1.0}}),
        (ValueError, [4004], {"algorithm": "direct", "collective": "alltoall", "bytes": 4001}),
        (ValueError, [], {"bytes": -1}),
        (ValueError, ["many"], {"bytes": "many"}),
        (ValueError, ["cores"], {"model": ringroad.CostModel(cores=2)}),
    ],
)
def test_what_makes_no_sense(error, names, options, refused):
    with refused(error, *names):
        simulate(**options)


def test_tables():
    pandas = pytest.importorskip("pandas")
    done = simulate()
    events, links = done.df(), done.link_df()
    assert isinstance(events, pandas.DataFrame) and len(events) == len(done.events)
    assert list(events.columns) == list(ringroad.measure.TraceEvent._fields)
    assert links.groupby("link").bytes.sum().tolist() == [6000.0] * 4
    html = done._repr_html_()
    assert "21 us" in html and "<table " in html and "busiest link" in html


def test_traces(tmp_path):
    done = simulate()
    done.save_trace(tmp_path / "trace.json")
    done.save_chrome_trace(tmp_path / "chrome.json")
    events = json.loads((tmp_path / "trace.json").read_text())["events"]
    assert len(events) == len(done.events) and events[0]["kind"] == "send" and events[0]["step"] == 0
    assert {event["algorithm"] for event in events} == {event.algorithm for event in done.events} == {"ring"}
    records = json.loads((tmp_path / "chrome.json").read_text())["traceEvents"]
    bars = [record for record in records if record["ph"] == "X"]
    assert len(bars) == len(done.events)
    assert {bar["args"]["algorithm"] for bar in bars} == {"ring"}
    assert max(bar["ts"] + bar["dur"] for bar in bars) == pytest.approx(21.0)
    arrows = [[record["id"] for record in records if record["ph"] == phase] for phase in "sf"]
    assert sorted(arrows[0]) == sorted(arrows[1]) and len(set(arrows[0])) == 24


# ------------------------------------------------------------------------------------------------ command line


@pytest.fixture
def run(capsys):
    """`run(code, ...)`: what a command line prints on standard output or standard error, if it exits with this code."""

    def run(code, *arguments):
        with pytest.raises(SystemExit) as end:
            cli.main(["lab", "simulate", *arguments])
        out, err = capsys.readouterr()
        assert (end.value.code, bool(out), bool(err)) == (code, code == 0, code != 0), out + err
        return out or err

    return run


COMMAND = ["ring", "--topology", "ring:4", "--bytes", "4000", "--step-latency", "1e-6", "--hop-latency", "1e-6"]
COMMAND += ["--bandwidth", "1e9", "--reduce-cost", "1e-9"]


def test_command(run):
    assert (
        run(0, *COMMAND, "--steps")
        == """\
ring: allreduce of 4000 B on ring:4
  time             21 us, in synchronous steps
  cost model       21 us (simulated: 1.00x)
  steps            6
  messages         24
  first rank done  21 us
  busiest link     0→1, 6000 B, 29% of the time

step  done at  busiest link  carries
   0     4 us  0→1            1000 B
   1     8 us  0→1            1000 B
   2    12 us  0→1            1000 B
   3    15 us  0→1            1000 B
   4    18 us  0→1            1000 B
   5    21 us  0→1            1000 B
"""
    )


def test_command_with_everything(run, tmp_path):
    wrong = ["--late", "1:1e-5", "--slow-rank", "2:2", "--slow-link", "0:1:0.5", "--fail-link", "2:3", "--skew", "1e-6"]
    pace = ["--free-running", "--store-and-forward", "--segment", "500", "--seed", "3", "--message-latency", "1e-5"]
    files = ["--save-trace", str(tmp_path / "t.json"), "--save-chrome-trace", str(tmp_path / "c.json")]
    report = json.loads(run(0, *COMMAND, *wrong, *pace, *files, "--json"))
    done = simulate(
        late={1: 1e-5},
        slow_ranks={2: 2.0},
        slow_links={(0, 1): 0.5},
        failed_links=[(2, 3)],
        skew=1e-6,
        seed=3,
        free_running=True,
        store_and_forward=True,
        segment=500,
    )
    model = ringroad.CostModel(
        step_latency=1e-6, hop_latency=1e-6, bandwidth=1e9, reduce_cost=1e-9, message_latency=1e-5
    )
    assert report["seconds"] > done.seconds and report["messages"] == done.messages == 48
    assert report["predicted"] == model.cost(done.schedule, done.topology, 4000).seconds
    assert report["free_running"] and len(report["finished"]) == 4 and len(report["step_ends"]) == 6
    ends = [(source, target) for source, target, *_ in done.topology.links]
    loads = dict(zip(ends, report["loads"], strict=True))
    assert loads[2, 3] == 0 and loads[2, 1] == 6000.0
    assert {"step", "source", "target", "bytes"} < set(report["busiest_links"][0])
    for name in ("t.json", "c.json"):
        assert json.loads((tmp_path / name).read_text())


def test_replanning():
    failed = {"topology": "torus:4x4", "bytes": 1 << 20, "failed_links": [(0, 1), (1, 0)]}
    around, again = simulate("ring", **failed), simulate("ring", replan=True, **failed).replanned
    left = ringroad.Topology("torus:4x4").without_links([(0, 1)])
    rows = [row for row in MODEL.explain("allreduce", left, 1 << 20).candidates if row.bit_identical]
    best = min(rows, key=lambda row: row.seconds)
    assert again.schedule == ringroad.Schedule.build(best.algorithm, left)
    assert len(again.topology.links) == len(left.links) and again.seconds == pytest.approx(best.seconds)
    assert again.seconds < around.seconds and around.replanned is None


def test_command_replans(run):
    arguments = [*COMMAND, "--fail-link", "0:1", "--fail-link", "1:0", "--replan"]
    report = json.loads(run(0, *arguments, "--json"))
    again = report["replanned"]
    assert again["seconds"] < report["seconds"] and again["topology"].startswith("without(ring:4")
    assert f"by {again['schedule']['name']} (" in run(0, *arguments)
    assert "--fail-link 0:1 --replan" in run(2, *COMMAND, "--replan")


def test_command_overlapped(run):
    # A transfer takes as long as a reduction, which therefore adds nothing.
    report = json.loads(run(0, *COMMAND, "--overlapped", "--json"))
    assert report["seconds"] == pytest.approx(6 * 3e-6) == pytest.approx(report["predicted"])


def test_command_on_a_schedule_of_a_file(run, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(ringroad.Schedule.build("ring", 4).to_json())
    assert run(0, str(file), *COMMAND[1:]) == run(0, *COMMAND)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--slow-link", "0:1"], "--slow-link 0:1:0.5"),
        (["--late", "x:1"], "--late 3:1e-3"),
        (["--slow-rank", "-1:2"], "count from 0"),
        (["--fail-link", "0:2"], "links lead to 1, 3"),
        (["--fail-link", "0:1", "--fail-link", "0:3"], "rank 0 cannot reach rank 1"),
    ],
)
def test_command_that_makes_no_sense(run, arguments, text):
    assert text in run(2, *COMMAND, *arguments)


# ------------------------------------------------------------------------------------------------ pictures


def test_a_timeline_has_a_bar_for_every_send_and_reduction(pyplot):
    done = simulate("swing", "torus:4x4")
    (axes, _) = done.plot().axes
    bars = sum(len(collection.get_paths()) for collection in axes.collections if "Poly" in type(collection).__name__)
    assert bars == sum(event.kind != "receive" for event in done.events)
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(rank) for rank in range(16)]
    (axes, _) = done.plot("timeline", ranks=[3, 5]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["3", "5"]


@pytest.mark.parametrize(
    ("algorithm", "topology"),
    [
        ("swing", "torus:4x4"),
        ("bucket", "torus:2x3x2"),
        ("ring", "ring:5"),
        ("direct", "hyperx:3x3"),
        ("hierarchical:ring", "hosts:2x3"),
        ("ring", "hammingmesh:2x2:2x2"),
        ("ring", "fattree:2x3:2"),
        ("ring", "ring:1"),
    ],
)
def test_links_are_coloured_by_their_loads(pyplot, algorithm, topology):
    from matplotlib.colors import to_rgba
    from ringroad.lab.viz.layout import draw

    done = simulate(algorithm, topology)
    figure = done.plot("links")
    panels = [axes for axes in figure.axes if axes.get_title().startswith("step")]
    assert figure.get_figwidth() <= 12 and figure.get_figheight() <= 16
    assert len(panels) == min(done.schedule.steps, 12) or "not drawn" in figure.get_suptitle()
    idle = to_rgba("#d8d8d8")
    for panel in panels[: done.schedule.steps if done.schedule.steps <= 12 else 0]:
        step = int(panel.get_title().split()[1].rstrip(","))
        (arrows,) = [c for c in panel.collections if type(c).__name__ == "Quiver"]
        busy = sum(tuple(colour) != idle for colour in arrows.get_facecolors())
        assert busy == sum(load.step == step for load in done.link_loads)
    drawing = draw(done.topology)
    assert drawing.lines.shape == (len(done.topology.links), 2, 2)
    apart = {tuple(place.round(6)) for place in drawing.nodes[: done.topology.ranks]}
    assert len(apart) == done.topology.ranks
    lines = {tuple(line.ravel().round(6)) for line in drawing.lines}
    assert len(lines) == len(drawing.lines), "two links are drawn at the same place"


FAILED = "#d62728"


@pytest.mark.parametrize(
    ("topology", "failed", "crosses"),
    [
        ("torus:4x4", [], 0),
        ("torus:4x4", [(0, 1)], 1),
        ("torus:4x4", [(0, 1), (1, 0), (0, 3)], 3),
        ("without(torus:4x4, 0-1, 5>6)", [], 3),
        ("without(ring:8, 0-1)", [], 2),
        ("without(torus:4x4, 0-1)", [(4, 5)], 3),
    ],
)
def test_failed_links_are_marked(pyplot, topology, failed, crosses):
    done = ringroad.lab.simulate("ring", topology, "1MiB", failed_links=failed)
    assert done.failed_links == tuple(failed)
    figure = done.plot("links", steps=[0])
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "x"]
    assert len(marks) == crosses and all(mark.get_color() == FAILED for mark in marks)
    assert ("failed link" in {text.get_text() for text in figure.legends[0].get_texts()}) == (crosses > 0)


def test_links_are_coloured_by_time_where_rates_differ(pyplot, refused):
    done = ringroad.lab.simulate("ring", "ring:4,0-1=1Gbit/s", "1MiB")
    by = {what: done.plot("links", by=what) for what in ("bytes", "seconds")}
    labels = {what: figure.axes[-1].get_ylabel() for what, figure in by.items()}
    assert labels == {"bytes": "load of the link in KiB", "seconds": "time of the link in ms"}
    colours = {}
    for what, figure in by.items():
        (arrows,) = [c for c in figure.axes[0].collections if type(c).__name__ == "Quiver"]
        colours[what] = len(set(map(tuple, arrows.get_facecolors())))
    assert colours["seconds"] == colours["bytes"] + 1, "the slow cable has a colour of its own"
    with refused(ValueError, "hops"):
        done.plot("links", by="hops")


def test_steps_that_are_left_out_are_said(pyplot):
    done = ringroad.lab.simulate("ring", "ring:9", "1MiB")
    title = done.plot("links", steps=[0, 1, 5]).get_suptitle()
    assert title.splitlines() == [done.title, "not drawn: steps 2-4, 6-15 of 0-15"]
    drawn = {int(axes.get_title().split()[1].rstrip(",")) for axes in done.plot("links").axes if axes.get_title()}
    left_out = [step for step in range(16) if step not in drawn]
    assert len(drawn) == 12 and all(str(step) in done.plot("links").get_suptitle() for step in left_out)
    assert simulate().plot("links").get_suptitle() == simulate().title


def test_texts_can_be_read(pyplot):
    """No text is below 7 points."""
    from ringroad.lab import viz

    pictures = [
        ringroad.lab.simulate("swing", "torus:4x4", "1MiB").plot("links", steps=[0]),
        viz.heatmap(viz.best_algorithms(["ring:8"], [8, 1 << 20])),
        ringroad.lab.find(ranks=16, degree=4).plot(),
    ]
    for figure in pictures:
        texts = [text for text in figure.findobj(pyplot.Text) if text.get_text()]
        assert texts and all(text.get_fontsize() >= 7 for text in texts)


def test_links_of_a_graph_that_were_removed(pyplot):
    """The spec of a graph does not say its links, so they cannot be marked."""
    networkx = pytest.importorskip("networkx")
    left = ringroad.Topology.from_graph(networkx.cycle_graph(6)).without_links([(0, 1)])
    assert ringroad.lab.simulate("ring", left, 64).plot("links").axes


def test_nothing_is_clipped(pyplot):
    """All texts lie within the picture."""
    from ringroad.lab import viz

    done = ringroad.lab.simulate("swing", "torus:4x4", "1MiB", failed_links=[(0, 1)])
    sizes = [1 << 10, 1 << 20]
    pictures = [
        done.plot("links", steps=[0, 1]),
        done.plot(),
        viz.curves(None, "ring:8", sizes, measured={"ring": {1 << 10: 1e-5}}),
        viz.heatmap(viz.best_algorithms(["ring:8"], sizes)),
        viz.heatmap(viz.best_algorithms(["ring:8"], [8], among=["recursive-doubling-multiport"])),
        ringroad.lab.find(ranks=16, degree=4).plot(),
    ]
    for figure in pictures:
        figure.draw_without_rendering()
        inner, outer = figure.get_tightbbox(), figure.bbox_inches
        assert inner.x0 >= -0.01 and inner.y0 >= -0.01
        assert inner.x1 <= outer.width + 0.01 and inner.y1 <= outer.height + 0.01


def test_pictures_need_details(pyplot, refused):
    brief = simulate(details=False)
    for what in ("timeline", "links"):
        with refused(ValueError, "details=True"):
            brief.plot(what)
    with refused(ValueError):
        brief.plot("map")


def test_slider(pyplot):
    pytest.importorskip("IPython")
    from ringroad.lab import viz

    page = viz.animate(simulate()).data
    assert page.count("data:image/png") == 6


def test_comparisons(pyplot, refused):
    from ringroad.lab import viz

    model = ringroad.CostModel()
    best = viz.best_algorithms(["ring:8", ringroad.Topology("torus:4x4")], [64, 1 << 20], model=model)
    for entry in best:
        found = model.explain("allreduce", entry.topology, entry.bytes)
        rows = [row for row in found.candidates if row.bit_identical]
        seconds = rows[0].seconds if rows[0].free_seconds is None else rows[0].free_seconds
        assert (entry.algorithm, entry.seconds) == (rows[0].algorithm, seconds)
        assert entry.runner_up.partition(":")[0] != entry.algorithm.partition(":")[0] and entry.margin >= 0
    axes = viz.heatmap(best).axes[0]
    said = [text.get_text().replace("-\n", "-").splitlines() for text in axes.texts]
    assert len(axes.patches) == 4 and len(said) == 8
    assert (said[0], said[1][0]) == ([best[0].algorithm], best[0].runner_up)
    assert said[1][1] == f"+{best[0].margin:.0%}"
    families = {label.get_text() for label in axes.get_legend().get_texts()}
    assert families == {entry.algorithm.partition(":")[0] for entry in best}
    shades = {patch.get_facecolor() for patch in axes.get_legend().findobj(pyplot.Rectangle)}
    widest = {patch.get_facecolor() for patch, entry in zip(axes.patches, best, strict=True) if entry.margin >= 0.5}
    assert len(shades) >= 3 * len(families) and widest <= shades
    with refused(ValueError):
        viz.heatmap([])
    only = viz.best_algorithms(["ring:8"], [64], among=["ring"])
    assert (only[0].algorithm, only[0].runner_up, only[0].margin) == ("ring", "-", math.inf)
    sizes = [1 << 10, 1 << 20]
    figure = viz.curves(["ring", "swing"], "ring:8", sizes, measured={"ring": {1 << 10: 1e-3}})
    predicted, dots, other = figure.axes[0].lines
    assert (
        predicted.get_label() == "ring" and other.get_label() == "swing" and dots.get_ydata()[0] == pytest.approx(1e-3)
    )
    ring = ringroad.Topology("ring:8")
    expected = model.cost(ringroad.Schedule.build("ring", ring), ring, 1 << 20).seconds
    assert predicted.get_ydata()[1] == pytest.approx(expected)
    assert figure.axes[0].xaxis.get_major_formatter()(1 << 20) == "1 MiB"
    assert figure.axes[0].yaxis.get_major_formatter()(1e-5) == "10 us"
    assert len(viz.curves(None, "ring:8", sizes).axes[0].lines) >= 2
    (*_, dash) = viz.curves(["ring", "hierarchical"], "ring:8", "1MiB").axes[0].lines
    assert dash.get_label() == "hierarchical: -" and not len(dash.get_xdata())
    with refused(ringroad.ScheduleError, "rong"):
        viz.curves(["rong"], "ring:8", sizes)
    with refused(ValueError, "rong"):
        viz.best_algorithms(["ring:8"], sizes, among=["rong"])
