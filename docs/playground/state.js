// What the page shows, and the same as the fragment of its address.

import { linksText, MOST_NODES, withLinks } from "./drawing.js";
import { bytesText, parseBytes } from "./text.js";

export const DEFAULT = {
  spec: "torus:8x8",
  /** A drawn network, instead of the spec. */
  drawing: null,
  /** Pairs of nodes. */
  cuts: [],
  collective: "allreduce",
  root: 0,
  bytes: 2 ** 20,
  /** null: the fastest. */
  algorithm: null,
  /** 0: all steps together. */
  step: 1,
  step_latency: null,
  hop_latency: null,
  bandwidth: null,
  axis: "time",
};

const NUMBERS = ["step_latency", "hop_latency", "bandwidth"];

export function toFragment(state) {
  const words = [];
  const put = (name, value) =>
    words.push(`${name}=${encodeURIComponent(value).replace(/%(3A|2C|3E|28|29|2F)/g, decodeURIComponent)}`);
  if (state.drawing) {
    put("links", linksText(state.drawing).replaceAll("\n", ",").replaceAll(" ", ""));
    put("ranks", state.drawing.ranks);
    put("at", state.drawing.at.map(([x, y]) => `${x}:${y}`).join(","));
  } else {
    put("network", state.spec);
  }
  if (state.cuts.length) put("cut", state.cuts.map(([a, b]) => `${a}-${b}`).join(","));
  put("collective", state.collective);
  if (state.root) put("root", state.root);
  put("bytes", bytesText(state.bytes, ""));
  if (state.algorithm) put("algorithm", state.algorithm);
  if (state.step !== DEFAULT.step) put("step", state.step);
  for (const name of NUMBERS) if (state[name] !== null) put(name, state[name]);
  if (state.axis !== DEFAULT.axis) put("axis", state.axis);
  return `#${words.join("&")}`;
}

/** The state of a fragment. What is missing has its default; what cannot be read is an error. */
export function fromFragment(fragment) {
  const state = structuredClone(DEFAULT);
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  const whole = (name, most) => {
    const number = Number(words.get(name));
    if (!Number.isInteger(number) || number < 0 || number > most)
      throw new Error(`the address has ${name}=${words.get(name).slice(0, 20)}, which is not a number from 0 on`);
    return number;
  };
  if (words.has("network")) state.spec = words.get("network").slice(0, 400);
  if (words.has("links") || words.has("at")) {
    const at = (words.get("at") ?? "")
      .split(",")
      .filter(Boolean)
      .map((pair) => pair.split(":").map(Number));
    if (at.length > MOST_NODES || at.some((pair) => pair.length !== 2 || !pair.every(Number.isFinite))) {
      throw new Error("the address has positions that cannot be read");
    }
    const ranks = words.has("ranks") ? Math.min(whole("ranks", MOST_NODES), at.length) : at.length;
    state.drawing = withLinks({ ranks, at, links: [] }, words.get("links") ?? "");
  }
  if (words.has("cut")) state.cuts = words.get("cut").split(",").filter(Boolean).slice(0, 64).map(parseCut);
  if (words.has("collective")) state.collective = words.get("collective").slice(0, 40);
  if (words.has("root")) state.root = whole("root", 2 ** 20);
  if (words.has("bytes")) state.bytes = parseBytes(words.get("bytes"));
  if (words.has("algorithm")) state.algorithm = words.get("algorithm").slice(0, 60);
  if (words.has("step")) state.step = whole("step", 2 ** 20);
  for (const name of NUMBERS) {
    if (!words.has(name)) continue;
    const number = Number(words.get(name));
    if (!Number.isFinite(number) || number < 0)
      throw new Error(`the address has ${name}=${words.get(name).slice(0, 20)}, which is not a number from 0 on`);
    state[name] = number;
  }
  if (words.get("axis") === "ratio") state.axis = "ratio";
  return state;
}

/** `0-1` as a pair of nodes. */
export function parseCut(text) {
  const match = /^\s*(\d{1,5})\s*[-–]\s*(\d{1,5})\s*$/.exec(text);
  if (!match) throw new Error(`“${text.slice(0, 20)}” is not a link; write for example 0-1`);
  return [Number(match[1]), Number(match[2])];
}
