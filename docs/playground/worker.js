// Runs the core. It is a worker so that the page never waits; `engine.js` ends it if it takes too long.

import init, { catalogue, Contest, Model, Topology, Steps } from "./core/ringroad_web.js";

/** Larger networks are for the command line. */
const MOST_RANKS = 1024;
const MOST_NODES = 4096;
/** More links are not drawn. */
const MOST_LINKS = 4096;

class TooLarge extends Error {}

/** Whether the core ran out of memory or stack, or panicked. */
const broke = (error) => error instanceof WebAssembly.RuntimeError || error instanceof RangeError;

const ready = init({ module_or_path: new URL("core/ringroad_web_bg.wasm", import.meta.url) });
const kept = new Map();

/** The value that was made last for this name, if it was made for the same key. */
function keep(name, key, make) {
  const text = JSON.stringify(key);
  const old = kept.get(name);
  if (old?.text === text) return old.value;
  old?.value.free();
  kept.delete(name);
  const value = make();
  kept.set(name, { text, value });
  return value;
}

function network({ spec, drawing }) {
  return keep("network", [spec, drawing], () => {
    if (drawing && JSON.parse(drawing).ranks === 0)
      throw new Error("the drawing has no ranks; add one, or write links such as 0-1");
    const made = drawing ? Topology.fromJson(drawing) : Topology.parse(spec);
    const { ranks, nodes } = made;
    if (ranks > MOST_RANKS || nodes > MOST_NODES) {
      made.free();
      throw new TooLarge(
        `${drawing ? "the drawing" : spec} has ${ranks.toLocaleString("en")} ranks; this page takes at most ` +
          `${MOST_RANKS.toLocaleString("en")}, and the command line more`,
      );
    }
    return made;
  });
}

/** The network, and that without the links that are cut. */
function networks(query) {
  const whole = network(query);
  if (!query.cuts.length) return { whole, left: whole };
  const key = [query.spec, query.drawing, query.cuts];
  return { whole, left: keep("left", key, () => whole.without(Uint32Array.from(query.cuts.flat()))) };
}

/** What the links carry in a step; step 0 is all steps together. */
function inStep(steps, number) {
  if (number === 0) return { number, loads: steps.totalLoads(), messages: new Uint32Array() };
  return { number, loads: steps.loads(number - 1), messages: steps.messages(number - 1) };
}

const calls = {
  catalogue: () => JSON.parse(catalogue()),

  /** What the network is, apart from cuts: also what cannot be compared can be drawn. */
  describe(query) {
    const found = JSON.parse(network(query).describe());
    return found.links.length > MOST_LINKS ? { ...found, links: null } : found;
  },

  evaluate(query) {
    const start = performance.now();
    const { whole, left } = networks(query);
    const { collective, root, bytes, algorithm } = query;
    if (!(root < left.ranks)) throw new Error(`there is no rank ${root}; the root is one of 0 to ${left.ranks - 1}`);
    const model = new Model(
      query.step_latency ?? undefined,
      query.hop_latency ?? undefined,
      query.bandwidth ?? undefined,
    );
    try {
      const place = [query.spec, query.drawing, collective, root];
      const uncut = query.cuts.length ? keep("uncut", place, () => new Contest(whole, collective, root)) : null;
      const contest = keep("contest", [...place, query.cuts], () => new Contest(left, collective, root));
      const found = JSON.parse(contest.compare(model, bytes));
      const [choice] = found.sizes;
      let [shown, steps, note] = [algorithm ?? choice.algorithm, null, null];
      const make = (name) => keep("steps", [...place, query.cuts, name], () => new Steps(left, name, collective, root));
      try {
        steps = make(shown);
      } catch (error) {
        if (!algorithm || broke(error)) throw error;
        [note, shown] = [error.message, choice.algorithm];
        steps = make(shown);
      }
      const seconds = steps.seconds(model, bytes);
      return {
        spec: found.topology,
        ranks: left.ranks,
        rows: choice.candidates,
        uncut: uncut && JSON.parse(uncut.compare(model, bytes)).sizes[0].candidates,
        choice,
        switches: found.switch_points.floats,
        shown,
        note,
        steps: { length: steps.length, seconds, chunks: steps.chunksPerVector, most: steps.mostLoad },
        step: inStep(steps, Math.min(query.step, steps.length)),
        milliseconds: performance.now() - start,
      };
    } finally {
      model.free();
    }
  },

  /** A step of the schedule that `evaluate` returned last. */
  step: ({ step }) => inStep(kept.get("steps").value, step),

  schedule: () => kept.get("steps").value.toJson(),
  network: (query) => networks(query).left.toJson(),
};

addEventListener("message", async ({ data: { id, name, argument } }) => {
  try {
    await ready;
    postMessage({ id, result: calls[name](argument) });
  } catch (error) {
    // After a trap the core's memory is in disorder; after a large network it stays large.
    const isTrap = broke(error);
    const text = isTrap
      ? "this is too large for the browser; the command line takes more"
      : String(error?.message ?? error);
    postMessage({ id, error: text, restart: isTrap || error instanceof TooLarge });
  }
});
