// The page: reads the controls, asks the core, and shows its answers.

import { colours, drawChart } from "./chart.js";
import * as drawings from "./drawing.js";
import { Engine } from "./engine.js";
import { MOST_DRAWN, Picture } from "./picture.js";
import { DEFAULT, fromFragment, parseCut, toFragment } from "./state.js";
import {
  aboutBytes,
  bytesText,
  fixed,
  fourDigits,
  loadReaders,
  parseBytes,
  parseNumber,
  plural,
  quoted,
  secondsText,
  significant,
} from "./text.js";

const $ = (id) => document.getElementById(id);
/** Rows of the table before it is opened. */
const SHORT = 8;
/** Networks up to this size are copied into a drawing. */
const COPIED = 32;
/** Milliseconds after which a call that is out of date is stopped. */
const PATIENCE = 1000;

const engine = new Engine();
let state = structuredClone(DEFAULT);
let catalogue = null;
/** What the core has said of the network, and where its nodes lie. */
let network = null;
let layout = null;
/** The latest comparison. */
let result = null;
let step = { loads: [], messages: [] };
/** What the picture shows apart from loads. */
let drawn = null;
let editing = false;
let selected = null;
let isLong = false;
let playing = false;

const picture = new Picture($("canvas"), {
  node: chooseNode,
  link: (a, b) => (editing ? edit(drawings.toggleLink(state.drawing, a, b)) : toggleCut([a, b])),
  background(at) {
    if (!editing) return choose(null);
    const node = state.drawing.ranks;
    let next = attempt("links-error", () => drawings.addNode(state.drawing, false, at.map(drawings.round)));
    if (!next) return;
    const from = selected !== null && selected >= node ? selected + 1 : selected;
    if (from !== null) next = drawings.toggleLink(next, from, node);
    selected = from === null ? null : node;
    edit(next);
  },
  move(node, at, done) {
    const places = state.drawing.at.map((place, other) => (other === node ? at.map(drawings.round) : place));
    state.drawing = { ...state.drawing, at: places };
    layout = { places, wraps: new Map() };
    renderPicture();
    if (done) remember();
  },
  key(key, way, node, place) {
    if (!editing || node === null) return false;
    if (way) {
      this.move(node, [place[0] + way[0] / 4, place[1] + way[1] / 4], true);
    } else if (key === "Delete" || key === "Backspace") {
      removeNode(node);
    } else {
      return false;
    }
    return true;
  },
});

// ---------------------------------------------------------------------------------------------- asking the core

let running = false;
let again = false;
/** Why the latest input could not be read. A comparison that began before it does not hide this. */
let wrong = null;

/** Compares anew. While the core is at work, only the latest request waits. */
async function update() {
  wrong = null;
  remember();
  if (running) {
    again = true;
    setTimeout(() => again && engine.stop(), PATIENCE);
    return;
  }
  running = true;
  do {
    again = false;
    await compare();
  } while (again);
  running = false;
}

function query() {
  const { drawing, hop_latency, step_latency, bandwidth } = state;
  return {
    ...state,
    drawing: drawing && drawings.networkJson(drawing),
    step_latency: step_latency === null ? null : step_latency / 1e6,
    hop_latency: hop_latency === null ? null : hop_latency / 1e6,
    bandwidth: bandwidth === null ? null : bandwidth * 1e9,
  };
}

async function compare() {
  const asked = query();
  $("results").setAttribute("aria-busy", "true");
  try {
    const place = JSON.stringify([asked.spec, asked.drawing]);
    const isOther = network?.place !== place;
    // Both questions at once: the picture is drawn while the core compares.
    const description = isOther && !state.drawing ? engine.call("describe", asked) : null;
    const comparison = engine.call("evaluate", asked);
    comparison.catch(() => {}); // If the description fails as well, that is what is shown.
    // A drawing that is not connected is drawn all the same.
    if (isOther) setNetwork(state.drawing ? described(state.drawing) : await description, place);
    const found = await comparison;
    if (again) return;
    ({ step, ...result } = found);
    showError(wrong);
    renderResult();
  } catch (error) {
    if (!again) showError(wrong ?? error.message);
  } finally {
    $("results").removeAttribute("aria-busy");
  }
}

/** As the core describes a drawing, so that it can be shown while it is not connected. */
function described({ ranks, at, links }) {
  const one = (from, to, capacity) => [from, to, capacity];
  return {
    ranks,
    nodes: at.length,
    dimensions: [],
    links: links.flatMap(({ from, to, both, capacity }) =>
      both ? [one(from, to, capacity), one(to, from, capacity)] : [one(from, to, capacity)],
    ),
  };
}

function setNetwork(found, place) {
  network = { ...found, place };
  if (!state.drawing || selected >= found.nodes) selected = null;
  layout = state.drawing
    ? { places: state.drawing.at, wraps: new Map() }
    : found.nodes > MOST_DRAWN || !found.links
      ? null
      : { places: found.drawing.nodes, wraps: new Map(found.drawing.wraps) };
  step = { loads: [], messages: [] };
  renderPicture();
  renderCuts();
}

/** Loads what happens in a step of the schedule that is shown; 0 stands for all steps. */
async function loadStep(number) {
  step = await engine.call("step", { step: number });
}

function showError(message) {
  $("error").textContent = message ?? "";
  $("error").hidden = message === null;
  $("spec").setAttribute("aria-invalid", String(message !== null));
  for (const part of document.querySelectorAll(".answer, .ranking, .chart, .take, .player")) {
    part.inert = message !== null;
    part.classList.toggle("stale", message !== null);
  }
  if (message !== null) stopPlaying();
  if (message !== null && !result) $("status").textContent = "";
}

/** Says why input cannot be read, until there is other input. */
function refuse(message) {
  wrong = message;
  showError(message);
}

/** Runs what may fail by the user's input; the message goes to the element `place`. */
function attempt(place, work) {
  try {
    const value = work();
    $(place).hidden = true;
    return value;
  } catch (error) {
    $(place).textContent = error.message;
    $(place).hidden = false;
    return null;
  }
}

function remember() {
  history.replaceState(null, "", toFragment(state));
}

// ---------------------------------------------------------------------------------------------- showing

function renderControls() {
  $("spec").value = state.drawing ? "" : state.spec;
  $("spec").placeholder = state.drawing ? "your drawing" : "torus:8x8";
  $("collective").value = state.collective;
  const { rooted } = catalogue.collectives.find(({ name }) => name === state.collective) ?? {};
  $("root").hidden = !rooted;
  $("root").value = state.root;
  $("bytes").value = bytesText(state.bytes, "");
  $("slider").value = state.bytes > 0 ? Math.log2(state.bytes) : 0;
  $("slider").setAttribute("aria-valuetext", bytesText(state.bytes));
  for (const name of ["step_latency", "hop_latency", "bandwidth"]) $(name).value = state[name] ?? "";
  for (const input of document.getElementsByName("axis")) input.checked = input.value === state.axis;
  renderEditor();
}

function renderEditor() {
  $("editor").hidden = !editing;
  $("draw").setAttribute("aria-pressed", String(editing));
  $("draw").textContent = editing ? "Done" : state.drawing ? "Edit the drawing" : "Draw a network";
  $("remove-node").disabled = selected === null;
  if (state.drawing && document.activeElement !== $("links")) $("links").value = drawings.linksText(state.drawing);
  $("hint").textContent = editing
    ? "Click on an empty place to add a rank, on two nodes to join them, on a link to remove it; drag nodes. With the keyboard: " +
      "arrows move between nodes and links, Enter chooses, Shift and arrows move a node, Delete removes it."
    : "Click a link to cut it, a rank to see what it sends. Keys: arrows and Enter.";
  $("cut-form").parentElement.hidden = editing;
}

const nameOf = (node) => (state.drawing ? drawings.nameOf(state.drawing, node) : String(node));

function renderPicture() {
  const canvas = $("canvas");
  canvas.classList.toggle("too-large", !layout);
  if (!layout) {
    canvas.dataset.message = `A network of ${plural(network.nodes, "node")} is too large to draw, but its costs are computed.`;
    return;
  }
  delete canvas.dataset.message;
  const shown = [network, layout, state.cuts, state.drawing, editing, selected];
  if (!drawn || shown.some((part, i) => part !== drawn[i])) {
    drawn = shown;
    picture.render({ network, ...layout, cuts: state.cuts, editing, selected, names: nameOf });
  }
  renderLoads();
}

/** The links of the network without those that are cut. */
function linksLeft() {
  const cut = new Set(state.cuts.flatMap(([a, b]) => [`${a} ${b}`, `${b} ${a}`]));
  return network.links.flatMap(([source, target], link) => (cut.has(`${source} ${target}`) ? [] : [link]));
}

/** By how much a link is loaded: what it carries, divided by its share of bandwidth. Of links that are left. */
const relative = (link, index) => step.loads[index] / network.links[link][2];

function renderLoads() {
  if (!result || !layout || !step.loads.length) return;
  const left = linksLeft();
  if (left.length !== step.loads.length) return;
  const most = step.number === 0 ? Math.max(0, ...left.map(relative)) : result.steps.most;
  const bytes = (vectors) => aboutBytes(vectors * state.bytes);
  const [shares, carried] = [network.links.map(() => 0), network.links.map(() => 0)];
  left.forEach((link, index) => {
    shares[link] = most > 0 ? relative(link, index) / most : 0;
    carried[link] = step.loads[index];
  });
  picture.load(shares, (link) => bytes(carried[link]));
  picture.move(playing ? 0 : null);
  const differ = network.links.some(([, , capacity]) => capacity !== 1);
  $("legend-max").textContent = bytes(most) + (differ ? " per unit of bandwidth" : "");
  renderDetail();
}

/** What the link carries that takes the longest, as a fraction of the message. */
function busiest() {
  const left = network.links ? linksLeft() : [];
  if (left.length !== step.loads.length) return step.loads.reduce((most, load) => Math.max(most, load), 0);
  const index = left.reduce((best, link, i) => (relative(link, i) > relative(left[best], best) ? i : best), 0);
  return step.loads[index] ?? 0;
}

function renderStep() {
  const { steps } = result;
  const number = step.number;
  $("step").max = steps.length;
  $("step").value = number;
  const seconds = number
    ? steps.seconds[number - 1]
    : result.rows.find((row) => row.algorithm === result.shown)?.seconds;
  const load = `the busiest link carries ${aboutBytes(busiest() * state.bytes)}`;
  const text = number
    ? `Step ${number} of ${steps.length}: ${secondsText(seconds)}, ${plural(step.messages.length / 4, "message")}; ${load}.`
    : `All ${plural(steps.length, "step")} together: ${load}.`;
  $("step-text").textContent = text;
  $("step").setAttribute("aria-valuetext", text);
  $("picture-title").textContent = number
    ? `${result.shown}, step ${number} of ${steps.length}`
    : `${result.shown}, all steps`;
}

/** What the selected rank sends in this step. */
function renderDetail() {
  const receivers = new Set();
  const sent = [];
  const { messages } = step;
  for (let i = 0; selected !== null && i < messages.length; i += 4) {
    const [source, destination, chunks, reduces] = messages.slice(i, i + 4);
    if (source !== selected) continue;
    receivers.add(destination);
    sent.push(
      `${aboutBytes((chunks / result.steps.chunks) * state.bytes)} to ${nameOf(destination)}${reduces ? ", which adds it" : ""}`,
    );
  }
  picture.mark(receivers);
  const who = selected === null ? "" : `Node ${nameOf(selected)}`;
  const what = sent.length > 8 ? `${sent.slice(0, 8).join("; ")}; and ${sent.length - 8} more` : sent.join("; ");
  $("detail").textContent =
    selected === null || !step.number
      ? ""
      : sent.length
        ? `${who} sends ${what}.`
        : `${who} sends nothing in this step.`;
}

function where() {
  return state.drawing ? `your drawing${state.cuts.length ? ` without ${cutsText()}` : ""}` : result.spec;
}

const cutsText = () => state.cuts.map(([a, b]) => `${nameOf(a)}-${nameOf(b)}`).join(", ");

function renderResult() {
  const { choice, rows, steps, note, shown, milliseconds } = result;
  // First, because it asks how wide it is: after a change the browser would have to lay the page out to answer.
  renderChart();
  const [best] = rows.filter(({ algorithm }) => algorithm === choice.algorithm);
  const strong = document.createElement("strong");
  strong.textContent = choice.algorithm;
  const rival =
    choice.runner_up === null || choice.margin === null
      ? ""
      : choice.margin > 0
        ? ` ${choice.runner_up} takes ${significant(100 * choice.margin)} % longer.`
        : ` ${choice.runner_up} takes as long.`;
  const given = state.collective + (state.root ? ` (root ${state.root})` : "");
  $("status").replaceChildren(
    `${given} of ${bytesText(state.bytes)} on ${where()}: `,
    strong,
    ` is the fastest, in ${secondsText(best?.seconds ?? 0)}.${rival}`,
  );
  if (note) $("status").append(` ${note}.`);
  $("timing").textContent =
    `${plural(rows.length, "algorithm")} compared in ${significant(milliseconds)} ms, here in the browser.`;
  $("timing").dataset.milliseconds = milliseconds;
  renderRows();
  renderSwitches();
  renderCuts();
  renderStep();
  renderPicture();
  renderAbout();
  const algorithm = shown;
  const stated = [
    ["--step-latency", state.step_latency, 1e-6],
    ["--hop-latency", state.hop_latency, 1e-6],
    ["--bandwidth", state.bandwidth, 1e9],
  ];
  const options = stated.flatMap(([option, value, unit]) =>
    value === null ? [] : [option, Number((value * unit).toPrecision(12))],
  );
  const on = state.drawing ? "drawn.json" : quoted(result.spec);
  $("command").textContent = [
    "ringroad explain",
    state.collective,
    "--topology",
    on,
    "--bytes",
    bytesText(state.bytes, ""),
    ...options,
  ].join(" ");
  $("play").disabled = steps.length === 0;
  document.title = `${algorithm} on ${state.drawing ? "a drawing" : result.spec} · ringroad playground`;
}

function renderRows() {
  const { rows, shown, uncut, switches } = result;
  const body = $("rows");
  const hadFocus = body.contains(document.activeElement);
  const colour = colours(switches);
  const before = new Map((uncut ?? []).map((row) => [row.algorithm, row.seconds]));
  const place = rows.findIndex(({ algorithm }) => algorithm === shown);
  const visible = isLong ? rows : rows.filter((_, i) => i < SHORT || i === place);
  document.querySelector("th.before").hidden = !uncut;
  document.querySelector("table").classList.toggle("compares", Boolean(uncut));
  body.replaceChildren(
    ...visible.map((row) => {
      const line = document.createElement("tr");
      line.className = row.algorithm === shown ? "chosen" : "";
      const head = document.createElement("th");
      head.scope = "row";
      const label = document.createElement("label");
      const radio = Object.assign(document.createElement("input"), {
        type: "radio",
        name: "algorithm",
        value: row.algorithm,
        checked: row.algorithm === shown,
      });
      const dot = document.createElement("span");
      dot.className = `key ${colour.get(row.algorithm) ?? "other"}`;
      label.append(radio, dot, `${row.algorithm}${row.bit_identical ? "" : " *"}`);
      head.append(label);
      const cell = (text, kind = "") =>
        Object.assign(document.createElement("td"), { textContent: text, className: `number ${kind}` });
      const ratio = cell(`${fixed(row.ratio, 2)}x`, "ratio");
      ratio.style.setProperty("--ratio", Math.min(1, 1 / row.ratio).toFixed(3));
      const simulated = cell(row.free_seconds === null ? "–" : secondsText(row.free_seconds), "wide");
      line.append(head, cell(secondsText(row.seconds)), simulated, ratio);
      if (uncut) line.append(cell(before.has(row.algorithm) ? secondsText(before.get(row.algorithm)) : "–", "before"));
      line.append(cell(row.steps), cell(row.hops, "wide hops"), cell(fourDigits(row.link_load), "wide"));
      return line;
    }),
  );
  if (hadFocus) body.querySelector("input:checked")?.focus();
  $("more").hidden = rows.length <= SHORT;
  $("more").textContent = isLong ? `Show the fastest ${SHORT}` : `Show all ${rows.length}`;
  $("more").setAttribute("aria-expanded", String(isLong));
}

function renderChart() {
  const { rows, switches, shown } = result;
  drawChart($("chart"), { rows, switches, shown, bytes: state.bytes, axis: state.axis }, { pick, size: setBytes });
}

function renderSwitches() {
  const colour = colours(result.switches);
  const items = result.switches.map(({ from_bytes: from, algorithm }, i) => {
    const item = document.createElement("li");
    const button = Object.assign(document.createElement("button"), { type: "button", className: "switch" });
    const dot = Object.assign(document.createElement("span"), { className: `key ${colour.get(algorithm)}` });
    button.append(dot, algorithm);
    button.addEventListener("click", () => setBytes(Math.max(8, from)));
    const next = result.switches[i + 1]?.from_bytes;
    const range =
      next === undefined
        ? from
          ? `from ${aboutBytes(from)} on`
          : "for all sizes"
        : from
          ? `from ${aboutBytes(from)}`
          : `below ${aboutBytes(next)}`;
    item.append(button, ` ${range}`);
    return item;
  });
  $("switches").replaceChildren(...items);
}

function renderCuts() {
  const chips = state.cuts.map(([a, b]) => {
    const item = document.createElement("li");
    const button = Object.assign(document.createElement("button"), {
      type: "button",
      textContent: `${nameOf(a)}-${nameOf(b)} ×`,
    });
    button.setAttribute("aria-label", `Restore link ${nameOf(a)}-${nameOf(b)}`);
    button.addEventListener("click", () => {
      toggleCut([a, b]);
      $("cut").focus();
    });
    item.append(button);
    return item;
  });
  $("cut-list").replaceChildren(...chips);
  const effect = $("cut-effect");
  effect.hidden = !state.cuts.length || !result?.uncut;
  if (effect.hidden) return;
  const { rows, uncut, shown, choice } = result;
  const seconds = (all, name) => all.find(({ algorithm }) => algorithm === name)?.seconds;
  const [now, then] = [seconds(rows, shown), seconds(uncut, shown)];
  const was = uncut.find(({ bit_identical }) => bit_identical) ?? uncut[0];
  const [best, later] = [seconds(rows, choice.algorithm), seconds(rows, was.algorithm)];
  const first =
    then && now
      ? `Without ${cutsText()}, ${shown} takes ${secondsText(now)} instead of ${secondsText(then)} (${significant(now / then)} times as long). `
      : "";
  const second =
    was.algorithm === choice.algorithm
      ? `${choice.algorithm} remains the fastest.`
      : `The fastest is now ${choice.algorithm}, in ${secondsText(best)}; before it was ${was.algorithm}, in ` +
        `${secondsText(was.seconds)}${shown === was.algorithm || !later ? "" : `, which now takes ${secondsText(later)}`}.`;
  effect.textContent = first + second;
}

function renderAbout() {
  const base = result.shown.split(":")[0];
  const found = catalogue.algorithms.find(({ name }) => name === base);
  $("about").replaceChildren();
  if (!found) return;
  const name = document.createElement("strong");
  name.textContent = result.shown;
  $("about").append(name, ` — ${found.summary}. `);
  const source = document.createElement("cite");
  source.textContent = found.source;
  $("about").append(source);
}

// ---------------------------------------------------------------------------------------------- what users do

function pick(name) {
  stopPlaying();
  state.algorithm = name === result.choice.algorithm ? null : name;
  state.step = Math.min(1, state.step);
  update();
}

function setBytes(bytes) {
  state.bytes = bytes;
  renderControls();
  update();
}

function setNetworkSpec(spec) {
  stopPlaying();
  Object.assign(state, { spec, drawing: null, cuts: [], algorithm: null, step: 1, root: 0 });
  editing = false;
  selected = null;
  renderControls();
  update();
}

function toggleCut([a, b]) {
  stopPlaying();
  const others = state.cuts.filter(([c, d]) => !(c === a && d === b) && !(c === b && d === a));
  state.cuts = others.length < state.cuts.length ? others : [...others, [a, b]];
  step = { loads: [], messages: [] };
  renderPicture();
  renderCuts();
  update();
}

function chooseNode(node) {
  if (editing && selected !== null && selected !== node) {
    const from = selected;
    selected = null;
    edit(drawings.toggleLink(state.drawing, from, node));
    return;
  }
  choose(selected === node ? null : node);
}

function choose(node) {
  selected = node;
  renderPicture();
  renderEditor();
  if (!result) return;
  renderDetail();
}

/** Shows another drawing. */
function edit(drawing) {
  stopPlaying();
  Object.assign(state, {
    drawing,
    cuts: [],
    algorithm: null,
    step: 1,
    root: Math.min(state.root, Math.max(0, drawing.ranks - 1)),
  });
  if (selected !== null && selected >= drawing.at.length) selected = null;
  renderControls();
  update();
}

function removeNode(node) {
  selected = null;
  edit(drawings.removeNode(state.drawing, node));
}

function startDrawing() {
  const small = network && network.nodes <= COPIED && layout;
  const hexagon = [0, 1, 2, 3, 4, 5].map((i) => [Math.sin((i * Math.PI) / 3), -Math.cos((i * Math.PI) / 3)]);
  try {
    const start = small
      ? drawings.drawingOf(network, layout.places)
      : drawings.withLinks({ ranks: 6, at: hexagon, links: [] }, "0-1,1-2,2-3,3-4,4-5,0-5,0-3");
    if (!small) toast(`A small network to begin with: networks of up to ${COPIED} nodes are copied.`);
    editing = true;
    selected = null;
    edit({ ...start, at: start.at.map((place) => place.map(drawings.round)) });
  } catch (error) {
    toast(error.message);
  }
}

async function goTo(number) {
  if (!result) return;
  state.step = Math.max(0, Math.min(number, result.steps.length));
  // Browsers allow no more than some changes of the address in a second.
  if (!playing) remember();
  try {
    await loadStep(state.step);
    renderStep();
    renderLoads();
  } catch (error) {
    showError(error.message);
  }
}

const still = matchMedia("(prefers-reduced-motion: reduce)");

async function play() {
  playing = true;
  $("play").textContent = "❚❚";
  $("play").setAttribute("aria-label", "Pause");
  $("step-text").setAttribute("aria-live", "off");
  if (state.step >= result.steps.length) state.step = 0;
  let number = Math.max(1, state.step);
  const each = Math.min(1400, Math.max(350, 24_000 / result.steps.length));
  while (playing) {
    await goTo(number);
    const start = performance.now();
    for (let t = 0; playing && t < 1;) {
      await new Promise(requestAnimationFrame);
      t = Math.min(1, (performance.now() - start) / each);
      picture.move(still.matches || t > 0.9 ? null : t / 0.9);
    }
    if (!playing || number >= result.steps.length) break;
    number++;
  }
  stopPlaying();
}

function stopPlaying() {
  if (playing) remember();
  playing = false;
  $("play").textContent = "▶";
  $("play").setAttribute("aria-label", "Play");
  picture.move(null);
}

let toastTimer = 0;
function toast(message) {
  $("toast").textContent = message;
  $("toast").classList.add("visible");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => $("toast").classList.remove("visible"), 5000);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} is copied.`);
  } catch {
    toast(`The browser does not allow copying. ${text}`);
  }
}

function save(text, name) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const plain = (name) => name.replace(/[^\w.-]+/g, "-").replace(/^-+|-+$/g, "");

/** Takes what the form says. */
function submit() {
  const spec = $("spec").value.trim();
  let read;
  try {
    if (!spec && !state.drawing) throw new Error("name a network, such as torus:8x8, or draw one");
    read = {
      bytes: parseBytes($("bytes").value),
      root: $("root").hidden ? 0 : Math.trunc(parseNumber($("root").value, "the root") ?? 0),
      step_latency: parseNumber($("step_latency").value, "starting a step"),
      hop_latency: parseNumber($("hop_latency").value, "a hop"),
      bandwidth: parseNumber($("bandwidth").value, "a link"),
    };
  } catch (error) {
    return refuse(error.message);
  }
  const collective = $("collective").value;
  if (collective !== state.collective) Object.assign(state, { algorithm: null, step: 1 });
  Object.assign(state, read, { collective });
  if (spec && (spec !== state.spec || state.drawing)) return setNetworkSpec(spec);
  renderControls();
  update();
}

function listen() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("results").focus();
  });
  // Where this folder is served by itself, there is no documentation around it.
  document.querySelector("nav a").hidden = /^\/[^/]*$/.test(location.pathname);
  $("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  $("controls").addEventListener("change", ({ target }) => {
    if (target === $("examples")) {
      if (target.value) setNetworkSpec(target.value);
      target.value = "";
    } else if (target !== $("slider")) {
      submit();
    }
  });
  $("slider").addEventListener("input", () => setBytes(2 ** Number($("slider").value)));
  $("rows").addEventListener("change", ({ target }) => pick(target.value));
  $("more").addEventListener("click", () => {
    isLong = !isLong;
    renderRows();
  });
  for (const input of document.getElementsByName("axis")) {
    input.addEventListener("change", () => {
      state.axis = input.value;
      remember();
      renderChart();
    });
  }
  $("step").addEventListener("input", () => {
    stopPlaying();
    goTo(Number($("step").value));
  });
  $("previous").addEventListener("click", () => {
    stopPlaying();
    goTo(state.step - 1);
  });
  $("next").addEventListener("click", () => {
    stopPlaying();
    goTo(state.step + 1);
  });
  $("play").addEventListener("click", () => (playing ? stopPlaying() : play()));
  $("cut-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const ends = attempt("cut-error", () => {
      const named = state.drawing
        ? $("cut").value.replace(/s(\d+)/gi, (_, i) => state.drawing.ranks + Number(i))
        : $("cut").value;
      const [a, b] = parseCut(named);
      // The core checks links that are not drawn.
      const exists = !network.links || network.links.some(([s, t]) => (s === a && t === b) || (s === b && t === a));
      if (!exists) throw new Error(`no link joins ${$("cut").value.replace("-", " and ")}`);
      return [a, b];
    });
    if (!ends) return;
    $("cut").value = "";
    toggleCut(ends);
  });
  $("draw").addEventListener("click", () => {
    if (!state.drawing) return startDrawing();
    editing = !editing;
    selected = null;
    renderEditor();
    renderPicture();
  });
  for (const [id, isSwitch] of [
    ["add-rank", false],
    ["add-switch", true],
  ]) {
    $(id).addEventListener("click", () => {
      const next = attempt("links-error", () => drawings.addNode(state.drawing, isSwitch, null));
      if (next) edit(next);
    });
  }
  $("remove-node").addEventListener("click", () => removeNode(selected));
  $("tidy").addEventListener("click", async () => {
    try {
      const { drawing } = await engine.call("describe", query());
      edit({ ...state.drawing, at: drawing.nodes.map((place) => place.map(drawings.round)) });
    } catch (error) {
      toast(error.message);
    }
  });
  // Nodes without links stay while the text is edited; the others are those that it names.
  let least;
  $("links").addEventListener("focus", () => {
    least = drawings.lone(state.drawing);
  });
  $("links").addEventListener("input", () => {
    const next = attempt("links-error", () => drawings.withLinks(state.drawing, $("links").value, least));
    if (next) edit(next);
  });
  $("share").addEventListener("click", () => copy(location.href, "The link"));
  $("copy-command").addEventListener("click", () => copy($("command").textContent, "The command"));
  $("save-schedule").addEventListener("click", async () => {
    const name = `${result.shown}-${state.collective}-${state.drawing ? "drawn" : result.spec}`;
    save(await engine.call("schedule"), `${plain(name)}.json`);
  });
  $("save-network").addEventListener("click", async () => {
    save(await engine.call("network", query()), `${state.drawing ? "drawn" : plain(result.spec)}.json`);
  });
  addEventListener("hashchange", () => {
    if (location.hash !== toFragment(state)) open();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width && result) renderChart();
    width = innerWidth;
  });
}

/** Shows what the address says. */
function open() {
  stopPlaying();
  editing = false;
  selected = null;
  try {
    state = fromFragment(location.hash);
    if (!catalogue.collectives.some(({ name }) => name === state.collective)) {
      const found = state.collective;
      state.collective = DEFAULT.collective;
      throw new Error(`unknown collective “${found}”`);
    }
    renderControls();
    update();
  } catch (error) {
    renderControls();
    refuse(error.message);
  }
}

function fillControls() {
  $("collective").replaceChildren(...catalogue.collectives.map(({ name }) => new Option(name, name)));
  const group = (label, options) => {
    const made = Object.assign(document.createElement("optgroup"), { label });
    made.append(...options);
    return made;
  };
  const shown = ({ example, summary }) => Object.assign(new Option(example, example), { title: summary });
  const files = /\.graphml$/;
  $("examples").append(
    group("Families", catalogue.networks.filter(({ example }) => !files.test(example)).map(shown)),
    group(
      "Named graphs",
      catalogue.graphs.map((name) => new Option(name, name)),
    ),
    group("Made of others", catalogue.operators.map(shown)),
  );
}

try {
  catalogue = await engine.call("catalogue");
  await loadReaders();
  fillControls();
  listen();
  open();
} catch (error) {
  showError(error.message);
}
