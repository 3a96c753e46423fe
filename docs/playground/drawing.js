// A network that somebody draws: ranks, switches and links, as a value, as lines of text and as the core's JSON.
//
// Nodes are numbered as in the core: ranks first, then switches. A link is { from, to, both, capacity }.

export const MOST_NODES = 256;
const MOST_LINKS = 4096;
/** The core's defaults: 100 Gbit/s and 0.5 us. */
const BANDWIDTH = 12.5e9;
const LATENCY = 0.5e-6;

export function nameOf(drawing, node) {
  return node < drawing.ranks ? String(node) : `s${node - drawing.ranks}`;
}

/** A line for each link. */
export function linksText(drawing) {
  const line = ({ from, to, both, capacity }) =>
    `${nameOf(drawing, from)}${both ? "-" : ">"}${nameOf(drawing, to)}${capacity === 1 ? "" : ` x${capacity}`}`;
  return drawing.links.map(line).join("\n");
}

/** How many ranks and switches there are up to the last one without links: those that no text names. */
export function lone({ ranks, at, links }) {
  const joined = new Set(links.flatMap(({ from, to }) => [from, to]));
  const last = at.map((_, node) => node).filter((node) => !joined.has(node));
  const [rank = -1, other = ranks - 1] = [last.findLast((node) => node < ranks), last.findLast((node) => node >= ranks)];
  return { ranks: rank + 1, switches: other + 1 - ranks };
}

/** The drawing with the links of a text, and with the nodes that it names, besides the `least` that stay in any case: if
 * nothing else is said, those that exist. Errors name the line. */
export function withLinks(drawing, text, least = { ranks: drawing.ranks, switches: drawing.at.length - drawing.ranks }) {
  const read = [];
  let { ranks, switches } = least;
  const lines = text
    .split(/[\n;,]/)
    .map((line) => line.trim())
    .filter(Boolean);
  if (lines.length > MOST_LINKS) throw new Error(`a drawing has at most ${MOST_LINKS} links`);
  for (const line of lines) {
    const match = /^(s?)(\d{1,4})\s*([->])\s*(s?)(\d{1,4})(?:\s*x\s*(\d+(?:\.\d+)?))?$/i.exec(line);
    if (!match) throw new Error(`“${line.slice(0, 40)}” is not a link; write for example 0-1, 0>1 or 0-s0 x2`);
    const [, a, i, way, b, j, times] = match;
    for (const [isSwitch, number] of [
      [a, Number(i)],
      [b, Number(j)],
    ]) {
      if (isSwitch) switches = Math.max(switches, number + 1);
      else ranks = Math.max(ranks, number + 1);
    }
    if (a.toLowerCase() === b.toLowerCase() && Number(i) === Number(j)) {
      throw new Error(`“${line}” joins a node to itself; leave it out`);
    }
    const capacity = times === undefined ? 1 : Number(times);
    if (!(capacity > 0)) throw new Error(`“${line}” has no bandwidth; write a number above 0`);
    read.push([a, Number(i), way === "-", b, Number(j), capacity]);
  }
  if (ranks + switches > MOST_NODES) throw new Error(`a drawing has at most ${MOST_NODES} nodes`);
  const number = (isSwitch, index) => (isSwitch ? ranks + index : index);
  const links = read.map(([a, i, both, b, j, capacity]) => ({ from: number(a, i), to: number(b, j), both, capacity }));
  const old = drawing.at;
  let added = 0;
  const place = (node, known) => (node < known.length ? known[node] : free(old, added++));
  const at = [
    ...Array.from({ length: ranks }, (_, node) => place(node, old.slice(0, drawing.ranks))),
    ...Array.from({ length: switches }, (_, node) => place(node, old.slice(drawing.ranks))),
  ];
  return { ranks, at, links };
}

/** A position for a further node, beside the others. */
function free(at, number) {
  const right = at.length ? Math.max(...at.map(([x]) => x)) : -1;
  return [Math.round(10 * (right + 1 + Math.floor(number / 8) * 0.5)) / 10, number % 8];
}

export function addNode(drawing, isSwitch, position) {
  if (drawing.at.length >= MOST_NODES) throw new Error(`a drawing has at most ${MOST_NODES} nodes`);
  const at = [...drawing.at];
  if (isSwitch) {
    return { ...drawing, at: [...at, position ?? free(at, at.length)] };
  }
  const node = drawing.ranks;
  at.splice(node, 0, position ?? free(at, at.length));
  const moved = (other) => (other >= node ? other + 1 : other);
  const links = drawing.links.map((link) => ({ ...link, from: moved(link.from), to: moved(link.to) }));
  return { ranks: node + 1, at, links };
}

export function removeNode(drawing, node) {
  const at = drawing.at.filter((_, other) => other !== node);
  const moved = (other) => (other > node ? other - 1 : other);
  const kept = drawing.links.filter(({ from, to }) => from !== node && to !== node);
  const links = kept.map((link) => ({ ...link, from: moved(link.from), to: moved(link.to) }));
  return { ranks: drawing.ranks - (node < drawing.ranks ? 1 : 0), at, links };
}

/** Joins two nodes, or removes all links between them. */
export function toggleLink(drawing, from, to) {
  const others = drawing.links.filter((link) => !joins(link, from, to));
  const links = others.length < drawing.links.length ? others : [...others, { from, to, both: true, capacity: 1 }];
  return { ...drawing, links };
}

function joins(link, a, b) {
  return (link.from === a && link.to === b) || (link.from === b && link.to === a);
}

/** The JSON of the core, which the command line reads, too. */
export function networkJson(drawing) {
  const { ranks, at } = drawing;
  const one = (source, target, capacity) => ({ source, target, bandwidth: BANDWIDTH, latency: LATENCY, capacity });
  const links = drawing.links.flatMap(({ from, to, both, capacity }) =>
    both ? [one(from, to, capacity), one(to, from, capacity)] : [one(from, to, capacity)],
  );
  return JSON.stringify({ spec: "graph:drawn", ranks, nodes: at.length, links });
}

/** A drawing of a network that the core has described, at these positions. */
export function drawingOf(description, at) {
  const alike = new Set(description.links.map(([, , , bandwidth, seconds]) => `${bandwidth} ${seconds}`));
  if (alike.size > 1)
    throw new Error(
      "the links of this network have different latencies, which a drawing has not; start from another one",
    );
  if (description.nodes > MOST_NODES)
    throw new Error(`a drawing has at most ${MOST_NODES} nodes; start from a smaller network`);
  const links = [];
  const open = new Map();
  for (const [from, to, capacity] of description.links) {
    const back = open.get(`${to} ${from} ${capacity}`)?.pop();
    if (back) {
      back.both = true;
    } else {
      const link = { from, to, both: false, capacity };
      links.push(link);
      const key = `${from} ${to} ${capacity}`;
      open.set(key, [...(open.get(key) ?? []), link]);
    }
  }
  return { ranks: description.ranks, at: at.map(([x, y]) => [round(x), round(y)]), links };
}

export function round(number) {
  return Math.round(100 * number) / 100;
}
