// Numbers as people read them, by the rules of `units.rs`, which writes the
// static part of the page and the text report; a test compares the two.

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

/** A duration in nanoseconds, in the unit that fits. */
function formatDuration(ns) {
  const seconds = Math.floor(ns / 1e9);
  if (ns === 0) return "0 s";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${threeDigits(ns / 1e3)} us`;
  if (ns < 1e9) return `${threeDigits(ns / 1e6)} ms`;
  if (seconds < 100) return `${threeDigits(ns / 1e9)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${formatCount(Math.floor(seconds / 3600))} h ${Math.floor(seconds / 60) % 60} min`;
}

function plural(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}
