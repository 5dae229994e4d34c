// The live topic table as data. The same rule as admin_ui/live/state.py `apply`: an update that does not start from what we hold
// is a gap, and a gap is never papered over.

export class Gap extends Error {}

export function apply(state, message) {
  if (message.type === "snapshot") {
    return { ...headOf(message), rows: { ...message.rows } };
  }
  if (state === null || message.epoch !== state.epoch || message.base !== state.sequence) throw new Gap();
  const rows = { ...state.rows, ...message.changed };
  for (const name of message.removed) delete rows[name];
  return { ...headOf(message), rows };
}

/** `totals`: of the whole namespace, null where the rows were asked for by name. `more`: the namespace has topics after these. */
function headOf({ epoch, sequence, at_ms, totals, more }) {
  return { epoch, sequence, at_ms, totals, more };
}

const UNSTORED = "non-persistent://";

/** What the pages of a namespace call a topic (full name): its last part, for a non-persistent one after its domain. */
export function shortName(topic) {
  const last = topic.slice(topic.lastIndexOf("/") + 1);
  return topic.startsWith(UNSTORED) ? `${UNSTORED}${last}` : last;
}

/** The address of a topic (full name); `pattern`: that of a persistent one, with __topic__ for its last part. */
export function topicAddress(pattern, topic) {
  const last = encodeURIComponent(topic.slice(topic.lastIndexOf("/") + 1));
  return topic.startsWith(UNSTORED) ? pattern.replace("topics/__topic__", `non-persistent/${last}`) : pattern.replace("__topic__", last);
}

const PARTITION = /^(.+)-partition-(\d{1,6})$/;
const SUMS = ["rate_in", "rate_out", "throughput_in", "throughput_out", "messages_in", "messages_out", "storage_bytes", "backlog_entries", "producers", "consumers"];

/** Rows of one topic each, the partitions of a partitioned topic summed under it: [{topic, partitions: [...], ...fields}]. A field is
 * null if it is not known of all of them. `order`: the kinds of problems, the most urgent first. */
export function grouped(rows, order = []) {
  const groups = new Map();
  for (const [topic, row] of Object.entries(rows)) {
    const match = topic.includes("-partition-") ? PARTITION.exec(topic) : null; // most are none: 5,000 of them a second
    const base = match ? match[1] : topic;
    let group = groups.get(base);
    if (!group) groups.set(base, (group = { topic: base, partitions: [], loaded: false, subscriptions: 0, problem: "", ...zeros() }));
    for (const key of SUMS) group[key] = plus(group[key], row[key]);
    group.loaded ||= row.loaded;
    if (row.problem && (!group.problem || urgency(order, row.problem) < urgency(order, group.problem))) group.problem = row.problem;
    group.subscriptions = group.subscriptions === null || row.subscriptions === null ? null : Math.max(group.subscriptions, row.subscriptions);
    if (match) group.partitions.push({ topic, index: Number(match[2]), ...row });
  }
  for (const group of groups.values()) group.partitions.sort((a, b) => a.index - b.index);
  return [...groups.values()];
}

/** The place of a kind in the order; one that this page does not know, of a later release, comes last. */
function urgency(order, kind) {
  const place = order.indexOf(kind);
  return place < 0 ? order.length : place;
}

/** {field: {known, least}}: `known` adds up the topics of which it is known, null if it is known of none; `least`: there are others. */
export function totals(groups) {
  return Object.fromEntries(SUMS.map((key) => {
    let sum = 0, unknown = 0;
    for (const group of groups) group[key] === null ? (unknown += 1) : (sum += group[key]);
    const none = unknown > 0 && unknown === groups.length;
    return [key, { known: none ? null : sum, least: unknown > 0 && !none }];
  }));
}

const AT_REST = ["storage_bytes", "backlog_entries"]; // a topic has these also while it is not loaded, and nobody looked

/** The same of totals that the broker made, over the topics that are loaded. */
export function knownTotals(sums) {
  const unknown = (key) => sums.at_rest > 0 && AT_REST.includes(key);
  return Object.fromEntries(SUMS.map((key) => [key, { known: unknown(key) && !sums.stored ? null : sums[key] ?? null, least: unknown(key) && sums.stored > 0 }]));
}

function plus(one, other) {
  return one === null || other === null ? null : one + other;
}

function zeros() {
  return Object.fromEntries(SUMS.map((key) => [key, 0]));
}
