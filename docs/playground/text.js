// Numbers with units, read and written as the command line does.

const UNITS = { "": 0, K: 10, M: 20, G: 30, T: 40 };

let core = null;

/** Loads the core, which reads numbers here, and does everything else in its worker. */
export async function loadReaders() {
  core = await import("./core/ringroad_web.js");
  await core.default({ module_or_path: new URL("core/ringroad_web_bg.wasm", import.meta.url) });
}

/** A number of bytes, as the core reads it: `8`, `64KiB`, `1.5M`, `2MB`. */
export const parseBytes = (text) => core.readBytes(text);

/** An exact number of bytes: `64 KiB`, or `65537 B` if no unit divides it. */
export function bytesText(number, space = " ") {
  const [unit, power] = Object.entries(UNITS).findLast(([, p]) => number > 0 && number % 2 ** p === 0) ?? ["", 0];
  return `${number / 2 ** power}${space}${unit ? `${unit}i` : ""}B`;
}

/** A number of bytes to three digits: `21.3 KiB`. */
export function aboutBytes(number) {
  const [unit, power] = Object.entries(UNITS).findLast(([, p]) => number >= 2 ** p) ?? ["", 0];
  return `${significant(number / 2 ** power)} ${unit ? `${unit}i` : ""}B`;
}

/** Three significant digits: `12.3 us`. */
export function secondsText(seconds) {
  for (const [unit, size] of [
    ["s", 1],
    ["ms", 1e-3],
    ["us", 1e-6],
  ]) {
    if (seconds >= 0.9995 * size) return `${significant(seconds / size)} ${unit}`;
  }
  return `${significant(seconds / 1e-9)} ns`;
}

/** Three significant digits without an exponent and without trailing zeros. */
export function significant(number) {
  const digits = Math.abs(number) < 9.995 ? 2 : Math.abs(number) < 99.95 ? 1 : 0;
  const text = fixed(number, digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Four significant digits without trailing zeros, for numbers below 10000. */
export function fourDigits(number) {
  const digits = number > 0 ? Math.max(0, 3 - Math.floor(Math.log10(number))) : 0;
  const text = fixed(number, Math.min(digits, 20));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** As Python rounds: to the even digit if both are as near. JavaScript rounds up then. */
export function fixed(number, digits) {
  const text = number.toFixed(digits);
  const exact = number.toFixed(Math.min(100, digits + 60)).split(".")[1] ?? "";
  const isTie = /^50*$/.test(exact.slice(digits));
  const isOdd = Number(text.at(-1)) % 2 === 1;
  return isTie && isOdd && number > 0 ? (number - 0.5 * 10 ** -digits).toFixed(digits) : text;
}

/** A number from a field that may be empty: null if it is. */
export function parseNumber(text, what) {
  if (text.trim() === "") return null;
  const number = Number(text);
  if (!Number.isFinite(number) || number < 0)
    throw new Error(`${what}: “${text.slice(0, 20)}” is not a number from 0 on`);
  return number;
}

/** A word of a shell. */
export function quoted(word) {
  return /^[\w:.,=+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}
