// Numbers, sizes and times as people read them. Pure but for the zone of times: no clock but the argument.

// Figures and dates as the language of the page has them: 1.234,5 in German.
export const locale = globalThis.document?.documentElement.lang === "de" ? "de-DE" : "en-GB";
const number = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const [tenths, hundredths] = [1, 2].map((digits) => new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits }));
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
  return count(Math.round(value));
}

export function bytes(value) {
  if (value === null) return UNKNOWN;
  let unit = 0;
  while (value >= 1023.5 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
  return (unit === 0 ? number.format(value) : trim(value)) + " " + UNITS[unit];
}

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
