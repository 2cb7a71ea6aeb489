// Numbers as people read them. The static part of the page is written with
// the same rules by the `units` module; a test compares the two.

const BYTE_UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Three significant digits: 1.23, 12.3, 123. */
function threeDigits(value) {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

function formatBytes(bytes) {
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1023.5 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${threeDigits(value)} ${BYTE_UNITS[unit]}`;
}

function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** A share of the whole in percent, one decimal. */
function formatShare(part, whole) {
  if (!(whole > 0) || !(part > 0)) return "0 %";
  const percent = (100 * part) / whole;
  if (percent < 0.05) return "<0.1 %";
  return `${percent.toFixed(1)} %`;
}

/** A time since the start, from nanoseconds. */
function formatTime(ns) {
  const seconds = ns / 1e9;
  if (seconds >= 100) return `${seconds.toFixed(0)} s`;
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  if (seconds >= 1e-3) return `${threeDigits(seconds * 1e3)} ms`;
  return `${threeDigits(seconds * 1e6)} µs`;
}

function plural(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}
