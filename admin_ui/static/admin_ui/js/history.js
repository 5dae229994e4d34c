// The last two minutes of several numbers of many things, sampled together: one list of times for all, and two packed arrays a thing,
// so that thousands of topics take a few MiB.

const POINTS = 128;

export class History {
  #times = new Float64Array(POINTS);
  #next = 0; // samples ever taken
  #series = new Map(); // name -> {key -> Float32Array}, NaN where there was no sample

  constructor(keys) {
    this.keys = keys;
  }

  /** Begins a sample; what is not `set` before the next one was not there. False: not later than the last one. */
  begin(at_ms) {
    if (this.#next && at_ms <= this.#times[(this.#next - 1) % POINTS]) return false;
    const place = this.#next % POINTS;
    this.#times[place] = at_ms;
    this.#next += 1;
    for (const arrays of this.#series.values()) for (const key of this.keys) arrays[key][place] = NaN;
    return true;
  }

  set(name, values) {
    let arrays = this.#series.get(name);
    if (!arrays) {
      arrays = Object.fromEntries(this.keys.map((key) => [key, new Float32Array(POINTS).fill(NaN)]));
      this.#series.set(name, arrays);
    }
    const place = (this.#next - 1) % POINTS;
    for (const key of this.keys) arrays[key][place] = values[key];
  }

  keep(names) {
    for (const name of this.#series.keys()) if (!names.has(name)) this.#series.delete(name);
  }

  /** [{at_ms, value}], the oldest first. */
  points(name, key) {
    const values = this.#series.get(name)?.[key];
    const found = [];
    if (!values) return found;
    for (let sample = Math.max(0, this.#next - POINTS); sample < this.#next; sample += 1) {
      const place = sample % POINTS;
      if (!Number.isNaN(values[place])) found.push({ at_ms: this.#times[place], value: values[place] });
    }
    return found;
  }
}
