// Numbers, sizes and times as people read them. Pure but for the zone of times: no clock but the argument.

// Figures and dates as the language of the page has them: 1.234,5 in German.
export const locale = globalThis.document?.documentElement.lang === "de" ? "de-DE" : "en-GB";
// Halves go to the even digit, as on the server: a figure is the same before and after it is live.
const [number, tenths, hundredths] = [0, 1, 2].map((digits) =>
  new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven" }));
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const UNKNOWN = "\u2013"; // never 0: what is not known is no number

export function count(value) {
  if (value === null) return UNKNOWN;
  if (value < 10_000) return number.format(value);
  if (value < 999_500) return trim(value / 1_000) + " k";
  if (value < 999_500_000) return trim(value / 1_000_000) + " M";
  return trim(value / 1_000_000_000) + " G";
}

/** Messages a second: small rates keep a decimal, so that one message every few seconds does not read as nothing. */
export function rate(value) {
  if (value === null) return UNKNOWN;
  if (value === 0) return "0";
  if (value < 0.1) return `<${tenths.format(0.1)}`;
  if (value < 10) return tenths.format(value);
  const whole = Math.round(value);
  return count(whole - value === 0.5 && whole % 2 ? whole - 1 : whole);
}

export function bytes(value) {
  if (value === null) return UNKNOWN;
  if (value > 0 && value <= 0.5) return "<1 B"; // what would be 0 B
  let unit = 0;
  while (value >= 1023.5 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
  return (unit === 0 ? number.format(value) : trim(value)) + " " + UNITS[unit];
}

/** A length of time by its two largest units: 3 d 4 h, 5 min 2 s. */
export function span(value) {
  if (value === null) return UNKNOWN;
  const parts = [];
  let rest = Math.floor(value);
  for (const [unit, length] of [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]]) {
    if (rest >= length) parts.push(`${Math.floor(rest / length)} ${unit}`);
    rest %= length;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

/** Rounded down, so that 100 % is all. Small shares keep a decimal, so that what is used does not read as nothing. */
export function percent(value) {
  if (value === null) return UNKNOWN;
  if (value > 0 && value < 0.1) return `<${tenths.format(0.1)} %`;
  if (value > 0 && value < 10 && !Number.isInteger(value)) return `${tenths.format(Math.floor(value * 10) / 10)} %`;
  return `${number.format(Math.floor(value))} %`;
}

/** By the form of a measure of history; shares are parts of 1. */
export const OF_MEASURES = {
  rate: (value) => (value === null ? UNKNOWN : `${rate(value)}/s`),
  bytes,
  count: (value) => (value === null || value >= 10 || Number.isInteger(value) ? count(value) : tenths.format(value)),
  span,
  ms: (value) => (value === null ? UNKNOWN : `${(value < 10 ? hundredths : number).format(value)} ms`),
  percent: (value) => percent(value === null ? null : value * 100),
};

/** What `form` makes of a total of live-state.js. */
export function total({ known, least }, form) {
  return (least ? "\u2265 " : "") + form(known);
}

// The zone that the reader chose, or that of the browser.
const chosen = globalThis.document?.documentElement.dataset.timeZone;
export const timeZone = chosen || Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const clocks = new Intl.DateTimeFormat(locale, { timeZone, hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
const MOMENT = { timeZone, day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
const [minutes, seconds] = [MOMENT, { ...MOMENT, second: "2-digit" }].map((form) => new Intl.DateTimeFormat(locale, form));

/** Clock time of the reader's zone, which it names, to the second. */
export function clock(ms) {
  return clocks.format(ms);
}

/** The day with it, to the minute or to the second. */
export function moment(ms, toTheSecond = false) {
  return (toTheSecond ? seconds : minutes).format(ms);
}

export function ago(ms, now) {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

function trim(value) {
  return value < 9.995 ? hundredths.format(value) : value < 99.95 ? tenths.format(value) : number.format(value);
}
