// Answers questions about networks with the core as WebAssembly. Usage: node playground.mjs CORE QUESTIONS.json
// A question is { spec | drawing, cuts, collective, bytes, algorithms }, or { texts } to read as numbers of bytes.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [core, questions] = process.argv.slice(2).map((path) => resolve(path));
const { Contest, initSync, Model, Topology, readBytes, Steps } = await import(pathToFileURL(join(core, "ringroad_web.js")));
initSync({ module: readFileSync(join(core, "ringroad_web_bg.wasm")) });

const read = (text) => {
  try {
    return readBytes(text);
  } catch {
    return null;
  }
};

const answer = ({ texts, spec, drawing, cuts, collective, bytes, algorithms }) => {
  if (texts) return texts.map(read);
  try {
    let network = drawing ? Topology.fromJson(drawing) : Topology.parse(spec);
    if (cuts?.length) network = network.without(Uint32Array.from(cuts.flat()));
    const [contest, model] = [new Contest(network, collective, 0), new Model()];
    const schedules = (algorithms ?? []).map((name) => {
      const steps = new Steps(network, name, collective, 0);
      const all = Array.from({ length: steps.length }, (_, step) => step);
      return {
        json: steps.toJson(),
        seconds: [...steps.seconds(model, bytes)],
        loads: all.map((step) => [...steps.loads(step)]),
        messages: all.map((step) => steps.messages(step).length / 4),
      };
    });
    return {
      network: network.toJson(),
      report: JSON.parse(contest.compare(model, bytes)),
      schedules,
    };
  } catch (error) {
    return { error: error.message };
  }
};

console.log(JSON.stringify(JSON.parse(readFileSync(questions, "utf8")).map(answer)));
