// The cost of every algorithm over the size of the vector, as SVG, with a strip of the fastest below.

import { aboutBytes, bytesText, secondsText, significant } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const [FIRST, LAST] = [3, 30];
const COLOURS = 8;
/** The largest ratio that is shown. */
const MOST_RATIO = 8;

function element(name, attributes = {}, content) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (content !== undefined) made.textContent = content;
  return made;
}

/** The classes of the colours of the fastest algorithms, by name, in the order of their sizes. */
export function colours(switches) {
  const names = [...new Set(switches.map(({ algorithm }) => algorithm))];
  return new Map(names.map((name, index) => [name, `c${index % COLOURS}`]));
}

/** Draws the chart into `container`. `pick(name)` and `size(bytes)` are called by clicks. */
export function drawChart(container, { rows, switches, shown, bytes, axis }, { pick, size }) {
  const width = Math.max(300, Math.min(760, container.clientWidth || 600));
  const height = Math.round(Math.max(260, width * 0.52));
  const named = width > 420;
  const edge = { left: 58, right: named ? 134 : 14, top: 14, bottom: 76 };
  const colour = colours(switches);
  const samples = Array.from({ length: 4 * (LAST - FIRST) + 1 }, (_, i) => 2 ** (FIRST + i / 4));
  const seconds = (row, at) => row.fixed + row.per_byte * at;
  const best = samples.map((at) => Math.min(...rows.filter((row) => row.bit_identical).map((row) => seconds(row, at))));
  const isRatio = axis === "ratio";
  // A single rank sends nothing, and needs no time.
  const ratio = (value, least) => (least > 0 ? value / least : 1);
  const shownValue = (row, at, i) => (isRatio ? ratio(seconds(row, at), best[i]) : Math.max(1e-9, seconds(row, at)));
  const values = rows.map((row) => samples.map((at, i) => shownValue(row, at, i)));
  const [low, high] = range(values, best, isRatio);
  const x = (at) => edge.left + ((Math.log2(at) - FIRST) / (LAST - FIRST)) * (width - edge.left - edge.right);
  const y = (value) =>
    edge.top +
    (1 - (Math.log10(value) - Math.log10(low)) / (Math.log10(high) - Math.log10(low))) *
      (height - edge.top - edge.bottom);
  const floor = height - edge.bottom;

  const what = isRatio ? "time of each algorithm as a multiple of the best" : "time of each algorithm";
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "plot" });
  svg.setAttribute("aria-label", `Chart: ${what}, over the size of the vector from 8 B to 1 GiB. ${spoken(switches)}`);

  for (const value of ticks(low, high, isRatio)) {
    svg.append(element("line", { class: "grid", x1: edge.left, x2: width - edge.right, y1: y(value), y2: y(value) }));
    svg.append(
      element(
        "text",
        { class: "tick", x: edge.left - 8, y: y(value), dy: "0.32em", "text-anchor": "end" },
        isRatio ? `${significant(value)}x` : secondsText(value),
      ),
    );
  }
  const room = width - edge.left - edge.right;
  const every = room > 540 ? 3 : room > 330 ? 5 : 9;
  for (let power = FIRST; power <= LAST; power += every) {
    const at = 2 ** power;
    svg.append(element("line", { class: "mark", x1: x(at), x2: x(at), y1: floor, y2: floor + 5 }));
    svg.append(element("text", { class: "tick", x: x(at), y: floor + 18, "text-anchor": "middle" }, bytesText(at)));
  }
  svg.append(element("line", { class: "axis", x1: edge.left, x2: width - edge.right, y1: floor, y2: floor }));
  svg.append(
    element(
      "text",
      { class: "axis-title", x: (edge.left + width - edge.right) / 2, y: floor + 34, "text-anchor": "middle" },
      "size of the vector",
    ),
  );
  svg.append(
    element(
      "text",
      {
        class: "axis-title",
        transform: `translate(12 ${(edge.top + floor) / 2}) rotate(-90)`,
        "text-anchor": "middle",
      },
      isRatio ? "time / time of the best" : "time",
    ),
  );

  const clip = element("clipPath", { id: "inside" });
  clip.append(
    element("rect", {
      x: edge.left,
      y: edge.top - 2,
      width: width - edge.left - edge.right,
      height: floor - edge.top + 2,
    }),
  );
  svg.append(clip);
  const lines = element("g", { "clip-path": "url(#inside)" });
  const order = (row) => (row.algorithm === shown ? 2 : colour.has(row.algorithm) ? 1 : 0);
  const sorted = rows.map((row, i) => ({ row, value: values[i] })).sort((a, b) => order(a.row) - order(b.row));
  for (const { row, value } of sorted) {
    const d = value
      .map((v, i) => `${i ? "L" : "M"}${x(samples[i]).toFixed(1)} ${y(Math.max(v, low / 10)).toFixed(1)}`)
      .join("");
    const kind = `line ${colour.get(row.algorithm) ?? "other"}${row.algorithm === shown ? " shown" : ""}`;
    const path = element("path", { class: kind, d });
    path.append(element("title", {}, row.algorithm));
    const hit = element("path", { class: "line-hit", d });
    hit.append(element("title", {}, row.algorithm));
    hit.addEventListener("click", (event) => {
      event.stopPropagation();
      pick(row.algorithm);
    });
    lines.append(path, hit);
  }
  svg.append(lines);
  if (named)
    svg.append(...labels(sorted, colour, shown, { x: width - edge.right + 6, y, low, high, top: edge.top, floor }));

  const cursor = x(Math.min(2 ** LAST, Math.max(2 ** FIRST, bytes)));
  svg.append(element("line", { class: "cursor", x1: cursor, x2: cursor, y1: edge.top, y2: floor }));
  const row = rows.find(({ algorithm }) => algorithm === shown);
  if (row) {
    const fastest = Math.min(...rows.filter((other) => other.bit_identical).map((other) => seconds(other, bytes)));
    const at = y(Math.min(high, Math.max(low, isRatio ? ratio(seconds(row, bytes), fastest) : seconds(row, bytes))));
    svg.append(element("circle", { class: `point ${colour.get(shown) ?? "other"}`, cx: cursor, cy: at, r: 4.5 }));
  }
  strip(svg, switches, colour, { x, top: floor + 48, left: edge.left, right: width - edge.right, pick });

  svg.addEventListener("click", (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    if (at.x < edge.left || at.x > width - edge.right || at.y > floor) return;
    const power = FIRST + ((at.x - edge.left) / (width - edge.left - edge.right)) * (LAST - FIRST);
    size(2 ** Math.round(power));
  });
  container.replaceChildren(svg);
}

function range(values, best, isRatio) {
  const all = values.flat();
  if (isRatio) return [Math.min(1, ...all) * 0.96, Math.min(MOST_RATIO, Math.max(1.5, ...all)) * 1.02];
  return [Math.min(...all) * 0.8, Math.max(Math.max(...best) * 6, Math.min(...all) * 10)];
}

function ticks(low, high, isRatio) {
  if (isRatio) return [1, 1.25, 1.5, 2, 3, 4, 6, 8].filter((value) => value <= high);
  const found = [];
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power++) found.push(10 ** power);
  return found;
}

/** Names of the fastest and of the shown algorithm at the ends of their lines, moved apart. */
function labels(sorted, colour, shown, { x, y, low, high, top, floor }) {
  const wanted = sorted
    .filter(({ row }) => colour.has(row.algorithm) || row.algorithm === shown)
    .map(({ row, value }) => ({ name: row.algorithm, at: y(Math.min(high, Math.max(low, value.at(-1)))) }))
    .sort((a, b) => a.at - b.at);
  const gap = 14;
  wanted.forEach((label, i) => (label.at = Math.max(label.at, i ? wanted[i - 1].at + gap : top + 4)));
  for (let i = wanted.length - 1; i >= 0; i--) {
    wanted[i].at = Math.min(wanted[i].at, i + 1 < wanted.length ? wanted[i + 1].at - gap : floor - 2);
  }
  return wanted.map(({ name, at }) => {
    const text = name.length > 17 ? `${name.slice(0, 16)}…` : name;
    return element(
      "text",
      { class: `name ${colour.get(name) ?? "other"}${name === shown ? " shown" : ""}`, x, y: at, dy: "0.32em" },
      text,
    );
  });
}

/** A band in the colours of the fastest algorithms. */
function strip(svg, switches, colour, { x, top, left, right, pick }) {
  switches.forEach(({ from_bytes: from, algorithm }, i) => {
    const start = Math.max(left, x(Math.max(from, 2 ** FIRST)));
    const end = Math.min(right, i + 1 < switches.length ? x(Math.max(switches[i + 1].from_bytes, 2 ** FIRST)) : right);
    if (end <= start) return;
    const band = element("g", { class: `band ${colour.get(algorithm)}` });
    band.append(element("rect", { x: start, y: top, width: Math.max(1, end - start - 1), height: 20, rx: 3 }));
    if (end - start > 7 * algorithm.length + 8) {
      band.append(
        element("text", { x: (start + end) / 2, y: top + 10, dy: "0.34em", "text-anchor": "middle" }, algorithm),
      );
    }
    band.append(element("title", {}, `${algorithm} is the fastest from ${aboutBytes(from)} on`));
    band.addEventListener("click", (event) => {
      event.stopPropagation();
      pick(algorithm);
    });
    svg.append(band);
  });
}

function spoken(switches) {
  return switches
    .map(({ from_bytes: from, algorithm }) => `From ${aboutBytes(from)} on ${algorithm} is the fastest.`)
    .join(" ");
}
