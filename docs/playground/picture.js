// The network as SVG: nodes, links in the colour of their load, and messages that move along them.
//
// Nodes and links are buttons. The arrow keys move the focus to the next one in that direction, so that the picture is one
// stop of the Tab key.

const SVG = "http://www.w3.org/2000/svg";
/** Pixels between neighbours in a grid, before the picture is fitted to the page. */
const UNIT = 60;
const RADIUS = 0.27;
const SIDE = 0.07;
const STUB = 0.66;
const MARGIN = 0.85;
/** More links get no moving dots. */
const MOST_DOTS = 1200;

export const MOST_DRAWN = 256;

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const add = ([x, y], [u, v], times = 1) => [x + times * u, y + times * v];
const text = ([x, y]) => `${(UNIT * x).toFixed(1)} ${(UNIT * y).toFixed(1)}`;

/** A point of a quadratic Bézier curve. */
function along([from, control, to], t) {
  return [0, 1].map((axis) => (1 - t) ** 2 * from[axis] + 2 * t * (1 - t) * control[axis] + t ** 2 * to[axis]);
}

export class Picture {
  #svg = element("svg", { role: "group", "aria-label": "Picture of the network", "aria-describedby": "hint" });
  #handlers;
  #items = new Map();
  #focus = null;
  #links = [];
  #dots = [];
  #drag = null;

  /** `handlers`: node(number), link(a, b), background(x, y), move(node, x, y, done), key(event, node). */
  constructor(container, handlers) {
    this.#handlers = handlers;
    container.append(this.#svg);
    this.#svg.addEventListener("keydown", (event) => this.#key(event));
    // Chromium stops at a picture that itself listens to focus.
    container.addEventListener("focusin", (event) => {
      const key = event.target.closest("[data-key]")?.dataset.key;
      if (key) this.#hold(key);
    });
    this.#svg.addEventListener("pointerdown", (event) => this.#down(event));
    this.#svg.addEventListener("pointermove", (event) => this.#moved(event));
    this.#svg.addEventListener("pointerup", (event) => this.#up(event));
    this.#svg.addEventListener("pointercancel", () => (this.#drag = null));
  }

  /** Draws `network` with its nodes at `places`. */
  render({ network, places, wraps, cuts, editing, selected, names }) {
    const hadFocus = this.#svg.contains(document.activeElement);
    const isCut = new Set(cuts.flatMap(([a, b]) => [`${a} ${b}`, `${b} ${a}`]));
    const radius = Math.min(RADIUS, 0.34 * nearest(places));
    this.#items.clear();
    this.#links = [];
    this.#dots = [];
    const cables = new Map();
    const parallel = new Map();
    network.links.forEach(([source, target], link) => {
      const key = `${Math.min(source, target)}-${Math.max(source, target)}`;
      if (!cables.has(key))
        cables.set(key, { key, a: Math.min(source, target), b: Math.max(source, target), links: [] });
      const pair = `${source} ${target}`;
      const number = wraps.has(link) ? 0 : (parallel.get(pair) ?? 0);
      if (!wraps.has(link)) parallel.set(pair, number + 1);
      const curves = wraps.has(link)
        ? stubs(places[source], places[target], wraps.get(link), radius)
        : [bow(source, target, places, radius, number)];
      cables.get(key).links.push({ link, curves });
    });
    const cableGroup = element("g");
    for (const cable of cables.values())
      cableGroup.append(this.#cable(cable, isCut.has(`${cable.a} ${cable.b}`), editing, names));
    const nodeGroup = element("g");
    places.forEach((place, node) =>
      nodeGroup.append(this.#node(node, place, node >= network.ranks, radius, selected, names, places.length)),
    );
    this.#dotGroup = element("g", { class: "dots", "aria-hidden": "true" });
    this.#svg.replaceChildren(cableGroup, nodeGroup, this.#dotGroup);
    this.#svg.classList.toggle("editing", editing);
    if (!this.#drag) this.#fit(places);
    if (!this.#items.has(this.#focus)) this.#focus = this.#items.keys().next().value ?? null;
    const held = this.#items.get(this.#focus)?.element;
    held?.setAttribute("tabindex", "0");
    if (hadFocus) held?.focus();
  }

  #dotGroup = element("g");

  #fit(places) {
    const [xs, ys] = [0, 1].map((axis) => places.map((place) => place[axis]));
    const [left, top] = [Math.min(...xs) - MARGIN, Math.min(...ys) - MARGIN];
    const [width, height] = [Math.max(...xs) + MARGIN - left, Math.max(...ys) + MARGIN - top];
    const box = [left, top, Math.max(width, 3), Math.max(height, 2)].map((value) => (UNIT * value).toFixed(0));
    this.#svg.setAttribute("viewBox", box.join(" "));
    // Small networks are not blown up, large ones fill the width.
    this.#svg.style.maxWidth = `${Math.max(320, UNIT * width * 1.15)}px`;
    this.#svg.style.aspectRatio = `${box[2]} / ${box[3]}`;
  }

  #cable({ key, a, b, links }, isCut, editing, names) {
    const hit = element("path", { class: "hit", d: links.flatMap(({ curves }) => curves.map(path)).join(" ") });
    const group = element("g", {
      class: isCut ? "cable cut" : "cable",
      role: "button",
      tabindex: "-1",
      "data-key": key,
    });
    const label = `link ${names(a)}-${names(b)}`;
    const use = isCut ? "cut; restore it" : editing ? "remove it" : "cut it";
    group.setAttribute("aria-label", `${label}, ${use}`);
    const title = element("title");
    title.textContent = `${label}: ${isCut ? "cut; click to restore it" : editing ? "click to remove it" : "click to cut it"}`;
    group.append(title, hit);
    for (const { link, curves } of links) {
      const line = element("path", {
        class: "link",
        d: curves.map((curve, i) => path(curve) + (i ? "" : barb(curve))).join(" "),
      });
      group.append(line);
      this.#links[link] = { line, curves, group, title, label, use };
    }
    // In the middle between both directions; of wrap-around links, at the end of the first stub.
    const isStub = links[0].curves.length > 1;
    const middles = links.map(({ curves }) => along(curves[0], 0.5));
    const mean = (axis) => middles.reduce((sum, place) => sum + place[axis], 0) / middles.length;
    const middle = isStub ? along(links[0].curves[0], 1) : [mean(0), mean(1)];
    if (isCut) {
      const [x, y] = middle.map((value) => UNIT * value);
      group.append(element("path", { class: "cross", d: `M${x - 6} ${y - 6}l12 12M${x + 6} ${y - 6}l-12 12` }));
    }
    this.#items.set(key, { element: group, place: middle, act: () => this.#handlers.link(a, b) });
    return group;
  }

  #node(node, place, isSwitch, radius, selected, names, count) {
    const [x, y] = place.map((value) => UNIT * value);
    const size = UNIT * radius;
    const shape = isSwitch
      ? element("rect", { x: -0.8 * size, y: -0.8 * size, width: 1.6 * size, height: 1.6 * size, rx: 3 })
      : element("circle", { r: size });
    const group = element(
      "g",
      {
        class: `node${isSwitch ? " switch" : ""}${node === selected ? " selected" : ""}`,
        role: "button",
        tabindex: "-1",
        "data-key": `n${node}`,
        "data-node": node,
        "aria-pressed": node === selected,
        "aria-label": `${isSwitch ? "switch" : "rank"} ${names(node)}`,
        transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
      },
      shape,
    );
    if (count <= 160) {
      const label = element("text", { "font-size": (size * (count > 100 ? 0.78 : 0.9)).toFixed(1), dy: "0.35em" });
      label.textContent = names(node);
      group.append(label);
    }
    this.#items.set(`n${node}`, { element: group, place, act: () => this.#handlers.node(node) });
    return group;
  }

  /** Colours the links by `shares`, from 0 for idle ones to 1 for the busiest; `carries(link)` says what a link carries. */
  load(shares, carries) {
    const cables = new Map();
    this.#links.forEach((one, link) => {
      one.line.classList.toggle("loaded", shares[link] > 0);
      one.line.style.setProperty("--load", Math.min(1, shares[link] ?? 0).toFixed(3));
      cables.set(one.group, [...(cables.get(one.group) ?? []), { ...one, link }]);
    });
    for (const [group, links] of cables) {
      if (group.classList.contains("cut")) continue;
      const { label, use, title } = links[0];
      const most = links.reduce((best, other) => ((shares[other.link] ?? 0) > (shares[best.link] ?? 0) ? other : best));
      group.setAttribute("aria-label", `${label} carries ${carries(most.link)}; ${use}`);
      title.textContent = `${label} carries ${carries(most.link)}; click to ${use}`;
    }
    this.#dotGroup.replaceChildren();
    this.#dots = [];
    const loaded = this.#links.flatMap((one, link) => (shares[link] > 0 ? [{ ...one, load: shares[link] }] : []));
    if (loaded.length > MOST_DOTS) return;
    for (const { curves, load } of loaded) {
      const dot = element("circle", { class: "dot", r: (2.6 + 2.6 * Math.sqrt(load)).toFixed(1), cx: -1e4, cy: -1e4 });
      this.#dotGroup.append(dot);
      this.#dots.push({ dot, curves });
    }
  }

  /** Moves the dots to the fraction `t` of their way; null hides them. */
  move(t) {
    this.#dotGroup.style.display = t === null ? "none" : "";
    if (t === null) return;
    for (const { dot, curves } of this.#dots) {
      const part = Math.min(curves.length - 1, Math.floor(t * curves.length));
      const [x, y] = along(curves[part], t * curves.length - part);
      dot.setAttribute("cx", (UNIT * x).toFixed(1));
      dot.setAttribute("cy", (UNIT * y).toFixed(1));
    }
  }

  /** Marks the receivers of the selected rank's messages. */
  mark(nodes) {
    for (const [key, { element: group }] of this.#items) {
      group.classList.toggle("receiver", key.startsWith("n") && nodes.has(Number(key.slice(1))));
    }
  }

  focusOn(key) {
    if (this.#items.has(key)) {
      this.#hold(key);
      this.#items.get(key).element.focus();
    }
  }

  #hold(key) {
    this.#items.get(this.#focus)?.element.setAttribute("tabindex", "-1");
    this.#focus = key;
    this.#items.get(key)?.element.setAttribute("tabindex", "0");
  }

  #key(event) {
    const key = event.target.closest?.("[data-key]")?.dataset.key;
    const item = this.#items.get(key);
    if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
    const node = key.startsWith("n") ? Number(key.slice(1)) : null;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      item.act();
      return;
    }
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (way && !event.shiftKey) {
      event.preventDefault();
      const next = this.#toward(item.place, way, key);
      if (next) this.focusOn(next);
    } else if (this.#handlers.key(event.key, way ?? null, node, item.place)) {
      event.preventDefault();
    }
  }

  /** The nearest item in a direction. */
  #toward([x, y], [u, v], except) {
    let [best, least] = [null, Infinity];
    for (const [key, { place }] of this.#items) {
      const [dx, dy] = [place[0] - x, place[1] - y];
      const [ahead, aside] = [dx * u + dy * v, Math.abs(dx * v) + Math.abs(dy * u)];
      if (key === except || ahead < 0.02 || aside > 1.5 * ahead) continue;
      const cost = ahead + 2 * aside;
      if (cost < least) [best, least] = [key, cost];
    }
    return best;
  }

  #at(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.#svg.getScreenCTM().inverse());
    return [point.x / UNIT, point.y / UNIT];
  }

  #down(event) {
    if (event.button !== 0) return;
    const target = event.target.closest("[data-key]");
    this.#drag = { key: target?.dataset.key ?? null, start: [event.clientX, event.clientY], moved: false };
    this.#svg.setPointerCapture(event.pointerId);
  }

  #moved(event) {
    if (!this.#drag?.key?.startsWith("n") || !this.#svg.classList.contains("editing")) return;
    const [x, y] = this.#drag.start;
    this.#drag.moved ||= Math.hypot(event.clientX - x, event.clientY - y) > 5;
    if (this.#drag.moved) this.#handlers.move(Number(this.#drag.key.slice(1)), this.#at(event), false);
  }

  #up(event) {
    const drag = this.#drag;
    this.#drag = null;
    if (!drag) return;
    if (drag.moved) {
      this.#handlers.move(Number(drag.key.slice(1)), this.#at(event), true);
    } else if (drag.key) {
      this.#hold(drag.key);
      this.#items.get(drag.key)?.act();
    } else {
      this.#handlers.background(this.#at(event));
    }
  }
}

function path([from, control, to]) {
  return `M${text(from)}Q${text(control)} ${text(to)}`;
}

/** Half an arrowhead at the end of a curve, on its outer side. */
function barb([, control, to]) {
  const [dx, dy] = [to[0] - control[0], to[1] - control[1]];
  const length = Math.hypot(dx, dy) || 1;
  const way = [dx / length, dy / length];
  return `L${text(add(add(to, way, -0.13), [-way[1], way[0]], 0.09))}`;
}

const straight = (from, to) => [from, [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2], to];

/** A link beside the straight line between two nodes, so that the other direction has room; in a bow around nodes that are in
 *  the way. */
function bow(source, target, places, radius, number) {
  const [from, to] = [places[source], places[target]];
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
  const way = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
  const right = [-way[1], way[0]];
  const side = Math.min(SIDE, 0.3 * radius) * (1 + 1.6 * number);
  const blocked = places.some(([x, y], node) => {
    if (node === source || node === target) return false;
    const [dx, dy] = [x - from[0], y - from[1]];
    const ahead = dx * way[0] + dy * way[1];
    return ahead > 0 && ahead < length && Math.abs(dx * right[0] + dy * right[1]) < 1.1 * radius;
  });
  const shorten = Math.min(radius + 0.03, length / 3);
  const ends = [add(add(from, way, shorten), right, side), add(add(to, way, -shorten), right, side)];
  const [start, control, end] = straight(...ends);
  return [start, blocked ? add(control, right, 0.32 * length) : control, end];
}

/** A wrap-around link: it leaves the grid on one side, and comes back on the other. */
function stubs(from, to, way, radius) {
  const right = [-way[1], way[0]];
  const at = (place, distance) => add(add(place, way, distance), right, SIDE);
  return [straight(at(from, radius + 0.03), at(from, STUB)), straight(at(to, -STUB), at(to, -radius - 0.03))];
}

function nearest(places) {
  let least = Infinity;
  for (let i = 0; i < places.length; i++) {
    for (let j = 0; j < i; j++)
      least = Math.min(least, Math.hypot(places[i][0] - places[j][0], places[i][1] - places[j][1]));
  }
  return Number.isFinite(least) && least > 0 ? least : 1;
}
