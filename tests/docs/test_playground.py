"""The playground: its core has the command line's numbers, and the page works in a browser.

`make test SET=playground` builds what these tests need; without it they are skipped, each with its reason.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import ringroad
from helpers import ROOT
from ringroad import Schedule, Topology
from ringroad._support.text import parse_bytes

FOLDER = ROOT / "docs" / "playground"
REQUIRED = "RINGROAD_TEST_REQUIRE_PLAYGROUND" in os.environ
BUILT = (FOLDER / "core" / "ringroad_web_bg.wasm").exists()
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def missing(reason: str) -> None:
    """Skips the test, or fails it under `make test SET=playground`."""
    assert not REQUIRED, reason
    pytest.skip(reason)


# ------------------------------------------------------------------------------------------------ the core

QUESTIONS: list[dict[str, Any]] = [
    {"spec": "torus:8x8", "collective": "allreduce", "bytes": 1 << 20, "algorithms": ["bfb-ring", "swing"]},
    {"spec": "torus:8x8", "collective": "allreduce", "bytes": 1 << 20, "cuts": [[0, 1]], "algorithms": ["swing"]},
    {"spec": "torus:4x3x2", "collective": "reduce_scatter", "bytes": 12345, "algorithms": ["bucket"]},
    {"spec": "ring:9", "collective": "allgather", "bytes": 8, "algorithms": ["bruck"]},
    {"spec": "hosts:2x4", "collective": "allreduce", "bytes": 1 << 26},
    {"spec": "petersen", "collective": "broadcast", "bytes": 65536, "algorithms": ["binomial"]},
    {"spec": "generalized-kautz:3:12", "collective": "alltoall", "bytes": 1 << 16},
    {"spec": "fattree:4x8:2", "collective": "reduce", "bytes": 1 << 22},
    {"spec": "hypercube:4,routing=single-path", "collective": "scatter", "bytes": 999},
]


@pytest.fixture(scope="module")
def in_wasm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`in_wasm(questions)`: what the core as WebAssembly answers, in node."""
    if not BUILT:
        missing("the core is not built: make playground")
    if shutil.which("node") is None:
        missing("node is not installed")

    def ask(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        file = tmp_path_factory.mktemp("questions") / "questions.json"
        file.write_text(json.dumps(questions))
        command = ["node", str(ROOT / "tests" / "docs" / "playground.mjs"), str(FOLDER / "core"), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    return ask


def test_the_core_has_the_numbers_of_the_command_line(in_wasm, ask):
    """Bit for bit, with the names of `ringroad explain --json`."""
    for question, answer in zip(QUESTIONS, in_wasm(QUESTIONS), strict=True):
        cuts = "".join(f", {a}-{b}" for a, b in question.get("cuts", []))
        spec = f"without({question['spec']}{cuts})" if cuts else question["spec"]
        printed = ask(
            "explain", question["collective"], "--topology", spec, "--bytes", str(question["bytes"]), "--json"
        )
        assert answer["report"] == json.loads(printed), question


def test_schedules_and_loads_are_those_of_the_command_line(in_wasm):
    """Exported schedules are the extension's; what links carry is what the simulator sends over them."""
    for question, answer in zip(QUESTIONS, in_wasm(QUESTIONS), strict=True):
        network = Topology.from_json(answer["network"])
        for name, made in zip(question.get("algorithms", []), answer["schedules"], strict=True):
            schedule = Schedule.from_json(made["json"])
            assert schedule == Schedule.build(name, network, question["collective"])
            # A size that chunks divide, so that the simulator's messages are not rounded.
            done = ringroad.lab.simulate(schedule, network, schedule.chunks * network.ranks * 64)
            assert made["messages"] == [sum(1 for s in schedule.sends() if s[0] == i) for i in range(schedule.steps)]
            for step, loads in enumerate(made["loads"]):
                simulated = {load.link: load.bytes / done.bytes for load in done.link_loads if load.step == step}
                for link, load in enumerate(loads):
                    assert load == pytest.approx(simulated.get(link, 0.0), abs=1e-12), (question, name, step, link)
            row = next(row for row in answer["report"]["sizes"][0]["candidates"] if row["algorithm"] == name)
            assert sum(made["seconds"]) == pytest.approx(row["seconds"])


def test_errors_are_those_of_the_command_line(in_wasm):
    specs = ["tours:8x8", "torus:8x", "torus:0x4", "torus:99999x99999", "((((", "", "net.graphml", "graph:x"]
    questions = [{"spec": spec, "collective": "allreduce", "bytes": 8} for spec in specs]
    for spec, answer in zip(specs, in_wasm(questions), strict=True):
        if spec == "net.graphml":
            assert "names a file" in answer["error"]
            continue
        with pytest.raises(ringroad.TopologyError) as error:
            Topology(spec)
        assert answer["error"] == str(error.value)


# ------------------------------------------------------------------------------------------------ the page


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not BUILT:
        missing("the core is not built: make playground")
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(FOLDER))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        missing("chromium is not installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address) -> Iterator[Any]:
    """`visit(fragment)`: a page that has shown its first answer or error. At the end it must have logged no error."""
    contexts, complaints = [], []

    def go(fragment: str = "", **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address + fragment)
        page.wait_for_function("document.title.includes('·') || !document.getElementById('error').hidden")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


def settled(page: Any, text: str) -> str:
    """The answer, once it has this text."""
    page.wait_for_function(
        "text => document.getElementById('status').textContent.includes(text)"
        " && !document.getElementById('results').hasAttribute('aria-busy')",
        arg=text,
    )
    return page.locator("#status").inner_text()


def test_the_page_has_the_numbers_of_the_command_line(visit, ask):
    page = visit("#network=torus:8x8&collective=allreduce&bytes=1MiB")
    lines = ask("explain", "allreduce", "--topology", "torus:8x8", "--bytes", "1MiB", "--all").splitlines()
    printed = [line.split() for line in lines[2 : lines.index("")]]
    page.locator("#more").click()
    rows = [row.split() for row in page.locator("#rows tr").all_inner_texts()]
    shown = [[word for word in row if word != "*"] for row in rows]
    expected = [row[:-1] for row in printed if len(row) == 8]
    assert len(shown) >= len(expected) > 10
    for mine, theirs in zip(shown, expected, strict=False):
        name, time, unit, ratio, steps, hops, load = theirs
        assert mine == [name, time, unit, ratio, steps, hops, load]
    assert page.locator("#command").inner_text() == "ringroad explain allreduce --topology torus:8x8 --bytes 1MiB"
    assert "bfb-ring is the fastest, in 57.3 us" in page.locator("#status").inner_text()


def test_the_address_holds_what_is_shown(visit):
    page = visit("#network=torus:4x4&collective=broadcast&root=3&bytes=64KiB&cut=0-1&step=2&axis=ratio")
    assert "broadcast (root 3) of 64 KiB on without(torus:4x4, 0-1)" in page.locator("#status").inner_text()
    page.locator("#rows input").nth(1).check()
    page.wait_for_function("location.hash.includes('algorithm=')")
    page.locator("#bytes").fill("1KiB")
    page.locator("#bytes").press("Enter")
    answer = settled(page, "of 1 KiB")
    other = visit(page.evaluate("location.hash"))
    assert other.locator("#status").inner_text() == answer
    assert other.locator("#rows tr.chosen").inner_text() == page.locator("#rows tr.chosen").inner_text()
    assert other.locator("input[name=axis][value=ratio]").is_checked()


def test_steps_follow_each_other(visit):
    page = visit("#network=ring:6&algorithm=ring&bytes=6KiB")
    assert "Step 1 of 10" in page.locator("#step-text").inner_text()
    assert page.locator(".link.loaded").count() == 6
    page.locator("#next").click()
    page.wait_for_function("document.getElementById('step-text').textContent.startsWith('Step 2 of 10')")
    page.locator("#step").focus()
    page.keyboard.press("Home")
    page.wait_for_function("document.getElementById('step-text').textContent.startsWith('All 10 steps')")
    page.locator("#play").click()
    page.wait_for_function("document.getElementById('step-text').textContent.startsWith('Step 2 of 10')")
    assert page.locator(".dot").count() == 6
    page.locator("#play").click()
    assert page.locator("#play").get_attribute("aria-label") == "Play"
    page.locator("[data-key=n2]").click()
    assert page.locator("#detail").inner_text().startswith("Node 2 sends 1 KiB to 3")


def test_cut_links_change_the_answer(visit):
    page = visit("#network=torus:4x4&algorithm=swing&bytes=1MiB")
    box = page.locator("[data-key='5-6'] .hit").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    settled(page, "without(torus:4x4, 5-6)")
    page.locator("[data-key='5-6']").press("Enter")
    settled(page, "on torus:4x4:")
    page.locator("#cut").fill("0-1")
    page.locator("#cut").press("Enter")
    settled(page, "without(torus:4x4, 0-1)")
    assert page.locator(".cable.cut").count() == 1
    assert "instead of" in page.locator("#cut-effect").inner_text()
    assert page.locator("th.before").is_visible()
    page.locator("#cut").fill("0-9")
    page.locator("#cut").press("Enter")
    assert page.locator("#cut-error").inner_text() == "no link joins 0 and 9"
    page.locator("#cut-list button").click()
    settled(page, "on torus:4x4:")
    # A network in two parts has a message, and can be mended.
    page = visit("#network=ring:4&cut=0-1,2-3")
    assert "no path leads from rank" in page.locator("#error").inner_text()
    page.locator("#cut-list button").first.click()
    settled(page, "without(ring:4, 2-3)")
    assert page.locator("#error").is_hidden()


def test_the_keyboard_suffices(visit):
    page = visit("#network=torus:3x3&bytes=1KiB")
    page.locator("#draw").focus()
    stops = []
    for _ in range(2):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.dataset.key ?? document.activeElement.id"))
    first = page.locator("svg [data-key]").first.get_attribute("data-key")
    assert stops == [first, "previous"]  # the picture is one stop
    page.locator("[data-key=n4]").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.key") == "4-5"
    page.keyboard.press("Enter")
    settled(page, "without(torus:3x3, 4-5)")
    assert page.evaluate("document.activeElement.dataset.key") == "4-5"
    page.keyboard.press("Enter")
    settled(page, "on torus:3x3:")
    page.locator("#rows input:checked").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("location.hash.includes('algorithm=')")
    assert page.evaluate("document.activeElement.name") == "algorithm"


def test_networks_are_drawn_with_mouse_and_keyboard(visit, tmp_path, ask):
    page = visit("#network=ring:4&bytes=1KiB")
    page.locator("#draw").click()
    settled(page, "on your drawing")
    assert page.locator("#links").input_value().splitlines() == ["0-1", "0-3", "1-2", "2-3"]
    page.locator("[data-key=n0]").click()
    page.locator("[data-key=n2]").click()
    page.wait_for_function("document.querySelectorAll('.cable').length === 5")
    # Enter on a rank and on another one joins them; Delete removes.
    page.locator("[data-key=n1]").focus()
    page.keyboard.press("Enter")
    page.locator("[data-key=n3]").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('.cable').length === 6")
    page.locator("#add-rank").click()
    page.wait_for_function("!document.getElementById('error').hidden")
    assert "no path leads from rank" in page.locator("#error").inner_text()
    page.locator("#links").fill("0-1\n1-2\n2-3\n0-3\n3-4\n4-0 x2")
    page.wait_for_function("document.getElementById('error').hidden")
    page.locator("#links").fill("0-1\n1-")
    assert "“1-” is not a link" in page.locator("#links-error").inner_text()
    page.locator("#links").fill("0-1\n1-2\n2-3\n0-3\n3-4\n4-0 x2")
    page.wait_for_function("document.querySelectorAll('.cable').length === 6")
    settled(page, "on your drawing")
    with page.expect_download() as download:
        page.locator("#save-network").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    report = json.loads(ask("explain", "allreduce", "--topology", str(file), "--bytes", "1KiB", "--json"))
    best = report["sizes"][0]["algorithm"]
    assert f"{best} is the fastest" in page.locator("#status").inner_text()
    # The drawing is in the address.
    other = visit(page.evaluate("location.hash"))
    assert other.locator("#status").inner_text() == page.locator("#status").inner_text()


def test_the_command_line_reads_what_is_exported(visit, tmp_path, ask):
    page = visit("#network=torus:4x4&algorithm=swing&bytes=64KiB")
    with page.expect_download() as download:
        page.locator("#save-schedule").click()
    assert download.value.suggested_filename == "swing-allreduce-torus-4x4.json"
    file = tmp_path / "swing.json"
    download.value.save_as(file)
    report = json.loads(ask("lab", "simulate", str(file), "--topology", "torus:4x4", "--bytes", "64KiB", "--json"))
    direct = json.loads(ask("lab", "simulate", "swing", "--topology", "torus:4x4", "--bytes", "64KiB", "--json"))
    assert report == direct


HOSTILE = {
    "#network=tours:8x8": "did you mean torus?",
    "#network=torus:99999x99999": "too large",
    "#network=torus:1000x1000": "this page takes at most 1,024",
    "#network=ring:1048576": "this page takes at most 1,024",
    "#network=<img src=x onerror=alert(1)>": "unknown topology",
    "#network=" + "(" * 300: "operators within each other",
    "#network=" + "line(" * 40 + "petersen" + ")" * 40: "operators within each other",
    "#collective=<b>": "unknown collective",
    "#bytes=lots": "not a number of bytes",
    "#bytes=99999999999999999999999": "too large",
    "#bytes=1025T": "too long",
    "#root=77&collective=broadcast&network=ring:4": "there is no rank 77",
    "#links=0-1,1-&at=0:0,1:1": "is not a link",
    "#links=0-9999&at=0:0": "at most 256 nodes",
    "#at=a:b": "cannot be read",
    "#cut=0-0": "no link joins 0 and 0",
    "#bandwidth=-1": "not a number from 0 on",
}


@pytest.mark.parametrize("fragment", HOSTILE, ids=lambda fragment: fragment[:30])
def test_hostile_input_gets_a_message(visit, fragment):
    page = visit(fragment)
    assert HOSTILE[fragment] in page.locator("#error").inner_text()
    # And the page goes on.
    page.locator("#spec").fill("ring:5")
    page.locator("#bytes").fill("1KiB")
    page.locator("#spec").press("Enter")
    settled(page, "on ring:5")
    assert page.locator("#error").is_hidden()


def test_units_are_those_of_the_command_line(in_wasm):
    texts = ["8", "8B", "64KiB", "1.5M", "2MB", "1.1 kb", "2mib", "1GB", "0.5", "1.5", "2MBit", "1e6", "", "-1", "2iB"]

    def expected(text: str) -> int | None:
        try:
            return parse_bytes(text)
        except ValueError:
            return None

    assert in_wasm([{"texts": texts}]) == [[expected(text) for text in texts]]


def test_an_error_outlives_a_comparison_that_began_before(visit):
    page = visit("#network=ring:5&bytes=1KiB")
    page.evaluate(
        """() => {
          const form = document.getElementById("controls");
          const [spec, bytes] = ["spec", "bytes"].map((id) => document.getElementById(id));
          spec.value = "torus:8x8";
          form.requestSubmit();
          bytes.value = "lots";
          form.requestSubmit();
        }"""
    )
    settled(page, "on torus:8x8")
    assert '"lots" is not a number of bytes' in page.locator("#error").inner_text()
    assert page.locator(".answer").evaluate("part => part.inert")
    page.locator("#bytes").fill("2MB")
    page.locator("#bytes").press("Enter")
    settled(page, "of 2000000 B")
    assert page.locator("#error").is_hidden()


def test_an_empty_network_is_said_to_be_empty(visit):
    page = visit("#network=ring:4&bytes=1KiB")
    page.locator("#spec").fill(" ")
    page.locator("#spec").press("Enter")
    assert "name a network" in page.locator("#error").inner_text()
    page.locator("#draw").click()
    settled(page, "on your drawing")
    page.locator("#links").fill("")
    page.wait_for_function("!document.getElementById('error').hidden")
    assert "the drawing has no ranks" in page.locator("#error").inner_text()
    assert page.locator(".node").count() == 0
    # What is typed stands for the whole network; ranks that it no longer names go.
    page.locator("#links").fill("0-12")
    page.locator("#links").fill("0-1\n1-2\n2-0")
    settled(page, "on your drawing")
    assert page.locator(".node").count() == 3 and page.locator("#error").is_hidden()
    page.locator("#add-rank").click()
    page.locator("#links").fill("0-1\n1-2")
    assert page.locator(".node").count() == 4


def test_sizes_have_units_and_no_column_is_cut(visit):
    page = visit("#network=torus:4x4&cut=0-1", viewport={"width": 1280, "height": 900})
    texts = page.locator("#switches li").all_inner_texts()
    assert any("KiB" in text for text in texts) and not any(re.search(r"\d{4} B", text) for text in texts), texts
    for width in (1440, 1280, 1100, 901, 800, 600, 375):
        page.set_viewport_size({"width": width, "height": 900})
        wide, room = page.locator(".scroll").evaluate("box => [box.scrollWidth, box.clientWidth]")
        assert wide <= room, width


def test_a_long_comparison_does_not_freeze_the_page(visit):
    """An all-to-all among 1,024 ranks takes the browser longer than it may; meanwhile the page answers."""
    page = visit("#network=torus:32x32&collective=alltoall&bytes=1MiB")
    assert "took longer than" in page.locator("#error").inner_text() or "1 MiB" in page.locator("#status").inner_text()
    page.locator("#collective").select_option("allreduce")
    settled(page, "allreduce of 1 MiB on torus:32x32")


def test_the_page_suits_screen_readers_and_narrow_screens(visit):
    page = visit("#network=torus:8x8", viewport={"width": 375, "height": 800}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, input, select, textarea, [role=button]')]
           .filter(e => e.checkVisibility() && !(e.ariaLabel || e.labels?.length || e.textContent.trim() || e.title))
           .map(e => e.outerHTML)"""
    )
    assert unnamed == []
    assert page.locator("#status").get_attribute("aria-live") == "polite"
    assert page.locator("#error").get_attribute("role") == "alert"
    assert page.locator(".canvas [tabindex='0']").count() == 1
    name = page.locator("[data-key='0-1']").get_attribute("aria-label")
    assert name.startswith("link 0-1 carries") and name.endswith("cut it")


CONTRAST = """
() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour, below) => {
    context.fillStyle = below; context.fillRect(0, 0, 1, 1);
    context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const background = element => {
    const all = [];
    for (let e = element; e; e = e.parentElement) all.unshift(getComputedStyle(e).backgroundColor);
    let colour = "white";
    for (const one of all) colour = `rgb(${rgb(one, colour).join()})`;
    return colour;
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    const visible = element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    if (!own || !visible || element.disabled) continue;
    if (element.closest("option, select, .visually-hidden, title, .skip, .band")) continue;
    const style = getComputedStyle(element);
    const below = background(element);
    const [a, b] = [light(rgb(element.ownerSVGElement ? style.fill : style.color, below)), light(rgb(below, "white"))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) poor.push(`${contrast.toFixed(2)} ${element.outerHTML.slice(0, 90)}`);
  }
  return poor;
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(visit, scheme):
    page = visit("#network=torus:4x4&cut=0-1", color_scheme=scheme)
    assert page.evaluate(CONTRAST) == []


def test_motion_can_be_reduced(visit):
    page = visit("#network=ring:6&bytes=6KiB", reduced_motion="reduce")
    page.locator("#play").click()
    page.wait_for_function("document.getElementById('step-text').textContent.startsWith('Step 2')")
    assert page.locator(".dots").evaluate("e => getComputedStyle(e).display") == "none"
