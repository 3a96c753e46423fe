// Numbers with units, read and written as the command line does.

const UNITS = { "": 0, K: 10, M: 20, G: 30, T: 40 };

/** A number of bytes: `8`, `64KiB`, `1.5M`, `2MB`; K, M, G and T are powers of 1024, KB, MB, GB and TB of 1000. */
export function parseBytes(text) {
  const match = text.length <= 60 && /^(\d+)(?:\.(\d+))?\s*(?:([KMGT])(iB|B)?|B)?$/i.exec(text.trim());
  if (!match) {
    throw new Error(`“${text.slice(0, 40)}” is not a number of bytes; write for example 8, 64KiB, 1MiB or 2G`);
  }
  const [, whole, part = "", letter = "", ending = ""] = match;
  const power = BigInt(UNITS[letter.toUpperCase()]);
  const unit = ending.toUpperCase() === "B" ? 10n ** ((power * 3n) / 10n) : 2n ** power;
  const [above, below] = [BigInt(whole + part) * unit, 10n ** BigInt(part.length)];
  if (above % below) throw new Error(`“${text}” is not a whole number of bytes`);
  if (above / below > 2n ** 50n) throw new Error("the vector is too long; write at most 1024T");
  return Number(above / below);
}

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
