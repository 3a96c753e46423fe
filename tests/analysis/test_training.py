"""Iterations of training: timelines by hand, the rules in a slow twin, models and their files, the paper's table."""

import json
import math

import hypothesis
import hypothesis.strategies as st
import pytest
import ringroad
from ringroad.lab import training
from ringroad.lab.reproduce import reproduce
from ringroad.lab.reproduce import training as paper
from ringroad.lab.training import Layer, Line, Model, Network

BY_HAND = Model("hand", (Layer("a", 100, 1, 2), Layer("b", 0, 1, 1), Layer("c", 300, 1, 1), Layer("d", 50, 1, 1)))


def network(fixed, per_byte):
    return Network("net", (Line("line", fixed, per_byte),))


@pytest.mark.parametrize(
    ("bucket", "fixed", "allreduces"),
    [
        # Gradients are ready at 5 (d), 6 (c) and 9 (a), when the backward pass ends. A byte takes 0.01.
        ("layer", 1, [("d", 5, 5, 6.5), ("c", 6, 6.5, 10.5), ("a", 9, 10.5, 12.5)]),
        ("layer", 0, [("d", 5, 5, 5.5), ("c", 6, 6, 9), ("a", 9, 9, 10)]),
        (350, 1, [("dc", 6, 6, 10.5), ("a", 9, 10.5, 12.5)]),
        ("351B", 1, [("dca", 9, 9, 14.5)]),
        ("model", 1, [("dca", 9, 9, 14.5)]),
        ("backlog", 1, [("d", 5, 5, 6.5), ("c", 6, 6.5, 10.5), ("a", 9, 10.5, 12.5)]),
        ("backlog", 4, [("d", 5, 5, 9.5), ("ca", 9, 9.5, 17.5)]),
    ],
)
def test_timelines_by_hand(bucket, fixed, allreduces):
    done = training.iterate(BY_HAND, network(fixed, 0.01), bucket=bucket)
    found = [("".join(a.layers), a.ready, a.start, a.end) for a in done.allreduces]
    assert [row[0] for row in found] == [row[0] for row in allreduces]
    assert [row[1:] for row in found] == [pytest.approx(row[1:]) for row in allreduces]
    assert done.compute == 9 and done.seconds == pytest.approx(max(9, allreduces[-1][3]))
    assert done.exposed == pytest.approx(done.seconds - 9) and done.efficiency == pytest.approx(9 / done.seconds)
    assert done.communication == pytest.approx(sum(end - start for _, _, start, end in allreduces))


def slow_backlog(model, line):
    """The paper's two rules, event by event: [(layers, start, end)]."""
    arrivals = [(when, layer) for layer, when in model.gradients()]
    done, buffer, pending = [], [], None
    while arrivals or pending is not None:
        if arrivals and (pending is None or arrivals[0][0] <= pending):
            clock, layer = arrivals.pop(0)
            buffer.append(layer)
            if pending is not None:
                continue
        else:
            clock, pending = pending, None
        if buffer:
            pending = clock + line.seconds(sum(layer.bytes for layer in buffer))
            done.append((tuple(layer.name for layer in buffer), clock, pending))
            buffer = []
    return done


def slow_buckets(model, line, limit):
    """Each bucket starts at the first whole second at which it is complete and the previous one has ended."""
    groups = [[]]
    for layer, when in model.gradients():
        if sum(one.bytes for one, _ in groups[-1]) >= limit:
            groups.append([])
        groups[-1].append((layer, when))
    done, clock = [], 0
    for group in filter(None, groups):
        while clock < group[-1][1]:
            clock += 1
        end = clock + line.seconds(sum(layer.bytes for layer, _ in group))
        done.append((tuple(layer.name for layer, _ in group), clock, end))
        clock = end
    return done


SMALL = st.integers(0, 9)
LAYERS = st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=1, max_size=12)


@hypothesis.given(LAYERS, SMALL, SMALL, st.sampled_from(["layer", "model", "backlog", 1, 5, 12]))
@hypothesis.settings(deadline=None, derandomize=True, database=None)
def test_what_always_holds(layers, fixed, per_byte, bucket):
    model = Model("any", tuple(Layer(str(n), *layer) for n, layer in enumerate(layers)))
    place = network(fixed, per_byte)
    done = training.iterate(model, place, bucket=bucket)
    ready = [when for _, when in model.gradients()]
    assert done.seconds >= done.compute and done.exposed == done.seconds - done.compute
    if ready:
        assert done.seconds >= ready[0] + done.communication
        assert done.communication == fixed * len(done.allreduces) + per_byte * model.bytes
    sent = [name for allreduce in done.allreduces for name in allreduce.layers]
    assert sent == [layer.name for layer, _ in model.gradients()]
    assert all(one.end <= next.start for one, next in zip(done.allreduces, done.allreduces[1:], strict=False))
    assert training.iterate(model, network(0, 0), bucket=bucket).exposed == 0
    found = [(a.layers, a.start, a.end) for a in done.allreduces]
    limit = {"layer": 1, "model": math.inf}.get(bucket, bucket)
    line = place.lines[0]
    assert found == (slow_backlog(model, line) if bucket == "backlog" else slow_buckets(model, line, limit))


def test_topologies():
    model = ringroad.CostModel(step_latency=1e-6, hop_latency=1e-6, bandwidth=1e9)
    for spec in ("ring:16", "torus:4x4", "hypercube:4", "hyperx:4x4"):
        place = Network.on(spec, model=model)
        for size in (0, 1000, 1 << 20, 1 << 27):
            found = model.explain("allreduce", ringroad.Topology(spec), size)
            rows = [row for row in found.candidates if row.bit_identical]
            assert place.best(size).seconds(size) == pytest.approx(rows[0].seconds), (spec, size)
        assert place.ranks == 16
    ring = Network.on(16, model=model, algorithm="ring")
    assert [line.name for line in ring.lines] == ["ring"]
    assert ring.best(16000).seconds(16000) == pytest.approx(30 * 3e-6)
    found = training.compare("alexnet", ["ring:16", ringroad.Topology("torus:4x4"), ring], costs=model, bucket="1MiB")
    assert [one.network.name for one in found.iterations] == ["ring:16", "torus:4x4", "ring:16"]
    assert found.best.network.name == "torus:4x4" and found.iterations[2].algorithms == ["ring"]


@pytest.mark.parametrize(
    ("error", "names", "act"),
    [
        (ValueError, [], lambda: training.compare("alexnet", [])),
        (ValueError, ["layer", "model", "backlog", "25MiB"], lambda: training.iterate(BY_HAND, 4, bucket="all")),
        (ValueError, ["0 bytes"], lambda: training.iterate(BY_HAND, 4, bucket=0)),
        (ringroad.TopologyError, ["torus"], lambda: training.iterate(BY_HAND, "thorus:4")),
        (ringroad.ScheduleError, ["ring"], lambda: training.iterate(BY_HAND, 4, algorithm="rong")),
        (ValueError, ["alexnet,"], lambda: Model.load("alexnett")),
        (FileNotFoundError, ["none.toml"], lambda: Model.load("none.toml")),
        (ValueError, ["batch", 0], lambda: Model.load("alexnet", batch=0)),
        (ValueError, ["throughput", "nan"], lambda: Model.load("alexnet", throughput=math.nan)),
    ],
)
def test_what_makes_no_sense(error, names, act, refused):
    with refused(error, *names):
        act()


# ------------------------------------------------------------------------------------------------ models


def test_shipped_models():
    """The counts of torchvision and transformers, in thousands."""
    thousands = {
        "alexnet": 61101,
        "bert": 109482,
        "gpt2": 124440,
        "inception_v3": 27161,
        "resnet18": 11690,
        "resnet50": 25557,
        "resnext50_32x4d": 25029,
        "shufflenet_v2_x2_0": 7394,
        "squeezenet1_1": 1235,
        "vgg16": 138358,
        "vgg19": 143667,
    }
    models = {name: Model.load(name) for name in training.SHIPPED}
    assert {name: round(model.bytes / 4000) for name, model in models.items()} == thousands
    for name, model in models.items():
        assert model.name == name and model.batch == 64 and model.source
        assert model.backward == pytest.approx(2 * model.forward) and model.forward > 0


FILE = """
batch = 2
dtype = "bfloat16"
throughput = 100
layers = [
    { name = "first", parameters = 10, flops = 50 },
    { name = "blocks", repeat = 2, layers = [
        { name = "one", bytes = 7, forward = 1, backward = 3 },
        { name = "part", layers = [{ name = "two", flops = 25, forward = 4, backward = 5 }] },
    ] },
]
"""


def test_files(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    model = Model.load(path)
    blocks = [
        layer for n in (0, 1) for layer in (Layer(f"blocks.{n}.one", 7, 1, 3), Layer(f"blocks.{n}.part.two", 0, 4, 5))
    ]
    assert model == Model("mine", (Layer("first", 20, 1, 2), *blocks), 2)
    model.save(tmp_path / "saved.toml")
    assert Model.load(tmp_path / "saved.toml") == Model("mine", model.layers, 2)
    odd = Model('quo"te\\\n\x7f é', (Layer("l", 1, 1e-9, 0.1 + 0.2),), 3, "so\tsaid")
    odd.save(path)
    assert Model.load(path) == odd
    path.write_text(FILE.replace("one", "one", 1).replace("bytes = 7, forward", "bytes = 7, flops = 100, forward"))
    assert [layer.forward for layer in Model.load(path, batch=1).layers] == [0.5, 1, 0.25, 1, 0.25]
    assert [layer.backward for layer in Model.load(path, throughput=50).layers] == [4, 8, 2, 8, 2]
    fast = Model.load("gpt2", throughput=math.inf)
    assert (fast.forward, fast.backward, fast.bytes) == (0, 0, 4 * 124439808)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("batch = 2", "batch = 0", ["'batch'", 0]),
        ("batch = 2", "batch = true", ["'batch'", True]),
        ("batch = 2", "batches = 2", ["'batches'", "batch, dtype"]),
        ("batch = 2", "name = 3", ["'name'", 3]),
        ("bfloat16", "int3", ["dtype 'int3'", "float16"]),
        ("throughput = 100", "throughput = 0", ["throughput", 0]),
        ("throughput = 100", "throughput = -inf", ["'throughput'", "-inf"]),
        ("throughput = 100", "", ["layer 'first'", "flops", "throughput"]),
        ("parameters = 10", "parameters = -10", ["layer 'first'", "'parameters'", -10]),
        ("parameters = 10", "parameters = 10, bytes = 20", ["layer 'first'", "parameters", "bytes"]),
        ("parameters = 10", "params = 10", ["layer 'first'", "'params'", "backward, bytes"]),
        ("forward = 1,", "", ["layer 'blocks', layer 'one'", "forward", "backward"]),
        (", forward = 1, backward = 3", "", ["layer 'blocks', layer 'one'"]),
        ("forward = 1,", 'forward = "1",', ["layer 'one'", "'forward'", "'1'"]),
        ('name = "one"', 'name = ""', ["layer 'blocks', layer 1", "'name'", "''"]),
        ('name = "one",', "", ["layer 'blocks', layer 1", "'name'"]),
        ("repeat = 2", "repeat = 0", ["layer 'blocks'", "'repeat'", 0]),
        ("repeat = 2", "repeats = 2", ["layer 'blocks'", "'repeats'", "layers, name, repeat"]),
        ('{ name = "two", flops = 25, forward = 4, backward = 5 }', "", ["layer 'part'", "layers"]),
        ('{ name = "two", flops = 25, forward = 4, backward = 5 }', "3", ["layer 'part'", "layer 1", 3]),
        ('{ name = "part"', '{ name = "one", forward = 1, backward = 1 }, { name = "part"', ["'blocks.0.one'"]),
    ],
)
def test_files_that_make_no_sense(tmp_path, old, new, names, refused):
    path = tmp_path / "mine.toml"
    assert FILE.count(old), old
    path.write_text(FILE.replace(old, new, 1))
    with refused(ValueError, path.name, *names):
        Model.load(path)


def test_a_file_that_is_no_toml(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("layers = [[")
    with pytest.raises(ValueError) as caught:
        Model.load(path)
    assert f"{path}: " in str(caught.value)


def test_measured_layers_keep_their_batch(tmp_path, refused):
    BY_HAND.save(tmp_path / "hand.toml")
    for change in ({"batch": 2}, {"throughput": 1.0}):
        with refused(ValueError, "'a'"):
            Model.load(tmp_path / "hand.toml", **change)


# ------------------------------------------------------------------------------------------------ the paper


def test_the_papers_table():
    rows = paper.table8()
    assert len(rows) == 11 and all(row.agrees for row in rows), [(r.model, r.computed) for r in rows if not r.agrees]
    assert {len(row.best.allreduces) for row in rows} == {2}
    (found,) = (report.verdicts for report in reproduce("zhao", "Section 8.4"))
    assert len(found) == 8 and all(statement.agrees for statement in found), found
    counts = [count for _, count in paper.agreeing([math.inf, 1e14, 2e13])]
    assert counts == [11, 7, 2]
    # 1 MiB at 100 Gb/s, as in the paper's table 4.
    times = [round(1e6 * place.best(1 << 20).seconds(1 << 20), 1) for place in (*paper.FRONTIER, paper.BOUND)]
    assert times == [323.5, 291.0, 328.4, 387.8, 567.6, 267.6]


def test_the_papers_tables_are_printed(capsys):
    (report,) = reproduce("zhao", "Table 8")
    report.show()
    out = " ".join(capsys.readouterr().out.split())
    assert [row[3] for row in report.rows] == 11 * ["yes"]
    assert "2 of 11" in out and "The paper does not state" in out and all(missing in out for missing in paper.MISSING)


# ------------------------------------------------------------------------------------------------ what users see


def test_objects():
    done = training.iterate(BY_HAND, network(1, 0.01), bucket="layer")
    assert repr(done) == "<Iteration hand on net, a bucket for each layer: 12.5 s, 3.5 s exposed>"
    assert "<th style='text-align:left'>exposed</th><td style='text-align:left'>3.5 s</td>" in done._repr_html_()
    both = training.compare(BY_HAND, [network(1, 0.01), network(0, 0)], bucket=350)
    assert "gradients of 450 B, buckets of 350 B; forward 4 s, backward 5 s; best on net" in repr(both)
    assert both._repr_html_().count("<tr>") == 3
    assert repr(BY_HAND) == "<Model hand: 4 layers, gradients of 450 B, computes for 9 s>"


def test_frames():
    pytest.importorskip("pandas")
    done = training.iterate(BY_HAND, network(1, 0.01), bucket="layer")
    assert list(done.df()["bytes"]) == [50, 300, 100]
    assert training.compare(BY_HAND, [done.network] * 2).df().shape == (2, 7)


def test_pictures(tmp_path, ask, refused):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from ringroad.lab import viz

    figure = training.compare(BY_HAND, [network(1, 0.01), network(0, 0)], bucket="layer").plot()
    titles = [panel.get_title() for panel in figure.axes]
    assert "12.5 s, 3.5 s exposed" in titles[0] and "9 s, 0 ns exposed" in titles[1]
    assert len(figure.axes[0].collections) == 3
    assert figure.axes[-1].get_xlabel() == "time in s" and len(figure.legends[0].get_texts()) == 4
    assert len(training.iterate(BY_HAND, network(0, 0)).plot().axes) == 1
    with refused(ValueError):
        viz.iterations([])
    pyplot.close("all")
    ask("lab", "training", "alexnet", "--topology", "ring:4", "--plot", str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_command(ask, tmp_path):
    BY_HAND.save(tmp_path / "hand.toml")
    out = ask(
        "lab", "training", str(tmp_path / "hand.toml"), "--line", "mine:1:0.01", "--bucket", "layer", "--timeline"
    )
    assert out == (
        "hand, batch 1: gradients of 450 B, a bucket for each layer; forward 4 s, backward 5 s\n"
        "\n"
        "network  iteration  exposed  efficiency  communication  allreduces  algorithms\n"
        "mine        12.5 s    3.5 s       72.0%          7.5 s           3  mine\n"
        "\n"
        "mine\n"
        "ready   start     end  bytes  algorithm  layers\n"
        "  5 s     5 s   6.5 s   50 B  mine       d\n"
        "  6 s   6.5 s  10.5 s  300 B  mine       c\n"
        "  9 s  10.5 s  12.5 s  100 B  mine       a\n"
    )
    assert ask("lab", "training").count("arXiv") == 10
    assert len(json.loads(ask("lab", "training", "--json"))) == 11
    options = ["--topology", "ring:16", "--topology", "torus:4x4", "--bandwidth", "1e9", "--step-latency", "1e-6"]
    report = json.loads(
        ask("lab", "training", "resnet18", *options, "--throughput", "inf", "--bucket", "backlog", "--json")
    )
    assert report["best"] == "torus:4x4" and report["bytes"] == 46758048 and report["forward"] == 0
    assert [len(place["allreduces"]) for place in report["networks"]] == [2, 2]
    assert "generalized" in ask("lab", "training", "bert", "--topology", "ring:4", "--algorithm", "generalized:1")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("--topology torus:4x4", ["alexnet"]),
        ("for example --line mine:120e-6:163e-12", ["alexnet", "--line", "a:b:c"]),
        ("for example --line mine:120e-6:163e-12", ["alexnet", "--line", "1:2"]),
        ("shipped model", ["alex", "--topology", "ring:4"]),
        ("layer, model, backlog or a size such as 25MiB", ["alexnet", "--topology", "ring:4", "--bucket", "some"]),
    ],
)
def test_command_lines_that_make_no_sense(text, arguments, capsys):
    from ringroad import cli

    with pytest.raises(SystemExit) as end:
        cli.main(["lab", "training", *arguments])
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and text in err
