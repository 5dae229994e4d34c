'use strict';
// What the JavaScript client pulsar-flex can do against a platform: a JSON line for each feature. The argument is a JSON object of
// strings, which tests/compat/probes/__init__.py describes. The library is found by NODE_PATH.

const { Consumer, Producer } = require('pulsar-flex');

const plan = JSON.parse(process.argv[2]);
const address = plan.broker.replace('pulsar://', '');
const options = { discoveryServers: [address], jwt: plan.token, logCreator: () => () => undefined };
const { EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED } = Consumer.SUB_TYPES;

const topic = (name) => plan.topics + name;
const same = (found, wanted) => {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(`${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
};

async function producer(name, more = {}) {
  const made = new Producer({ ...options, topic: name, producerAccessMode: Producer.ACCESS_MODES?.SHARED ?? 0, ...more });
  await made.create();
  return made;
}

async function consumer(name, subType = EXCLUSIVE, more = {}) {
  const made = new Consumer({ ...options, topic: name, subscription: 's', subType, consumerName: 'c', receiveQueueSize: 10, ...more });
  await made.subscribe();
  return made;
}

/** Collects messages until there are `count`; `handle` acknowledges them. */
function collect(from, count, handle = ({ ack }) => ack()) {
  return new Promise((resolve, reject) => {
    const found = [];
    const timer = setTimeout(() => reject(new Error(`only ${JSON.stringify(found)} came`)), 8000);
    from
      .run({
        autoAck: false,
        onMessage: async (received) => {
          found.push({ text: Buffer.from(received.message).toString(), properties: received.properties, count: received.redeliveryCount });
          await handle(received, found.length);
          if (found.length === count) {
            clearTimeout(timer);
            resolve(found);
          }
        },
      })
      .catch(reject);
  });
}

const texts = (found) => found.map(({ text }) => text);

async function send(name, ...payloads) {
  const from = await producer(name);
  for (const payload of payloads) await from.sendMessage({ payload, properties: {} });
}

/** Registers the schema of texts for a topic: the client has none of its own. */
async function register(name) {
  const answer = await fetch(`${plan.admin}/admin/v2/schemas/${name.replace('persistent://', '')}/schema`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${plan.token}` },
    body: JSON.stringify({ type: 'STRING', schema: '', properties: {} }),
  });
  same(answer.status, 200);
}

const roundTrip = (name, subType) => async () => {
  const to = await consumer(topic(name), subType);
  await send(topic(name), 'a', 'b');
  same(texts(await collect(to, 2)), ['a', 'b']);
};

const features = {
  produce_and_consume: roundTrip('plain', EXCLUSIVE),
  shared_subscription: roundTrip('shared', SHARED),
  failover_subscription: roundTrip('failover', FAILOVER),
  key_shared_subscription: roundTrip('keyed', KEY_SHARED),
  async keys_and_properties() {
    const to = await consumer(topic('props'));
    await (await producer(topic('props'))).sendMessage({ payload: 'x', properties: { a: '1' } });
    same(JSON.stringify((await collect(to, 1))[0].properties).includes('1'), true);
  },
  async batches() {
    const to = await consumer(topic('batches'));
    const messages = ['a', 'b', 'c'].map((payload) => ({ payload, properties: {} }));
    await (await producer(topic('batches'))).sendBatch({ messages });
    same(texts(await collect(to, 3)), ['a', 'b', 'c']);
  },
  async exclusive_producer() {
    const exclusive = { producerAccessMode: Producer.ACCESS_MODES.EXCLUSIVE };
    await producer(topic('mode'), exclusive);
    const second = producer(topic('mode'), exclusive).then(
      () => 'made',
      () => 'refused',
    );
    same(await Promise.race([second, new Promise((resolve) => setTimeout(resolve, 3000, 'waits'))]), 'refused');
  },
  async exclusive_subscription() {
    await consumer(topic('excl'));
    const second = consumer(topic('excl')).then(
      () => 'made',
      () => 'refused',
    );
    same(await Promise.race([second, new Promise((resolve) => setTimeout(resolve, 3000, 'waits'))]), 'refused');
  },
  async cumulative_acknowledgement() {
    const to = await consumer(topic('cumulative'));
    await send(topic('cumulative'), 'a', 'b');
    const handle = ({ ack }, count) => (count === 2 ? ack({ type: Consumer.ACK_TYPES.CUMULATIVE }) : undefined);
    same(texts(await collect(to, 2, handle)), ['a', 'b']);
  },
  async negative_acknowledgement() {
    const to = await consumer(topic('nack'), SHARED);
    await send(topic('nack'), 'a');
    const handle = ({ ack }, count) => (count === 1 ? ack({ type: Consumer.ACK_TYPES.NEGATIVE }) : ack());
    same((await collect(to, 2, handle)).map(({ count }) => count), [0, 1]);
  },
  // It has no way to publish them.
  async delayed_delivery() {
    same(texts(await collect(await consumer(plan.delayed, SHARED), 2)).sort(), ['now', 'soon']);
  },
  async without_a_schema() {
    await register(topic('sc-plain'));
    const to = await consumer(topic('sc-plain'));
    await send(topic('sc-plain'), 'a', 'b');
    same(texts(await collect(to, 2)), ['a', 'b']);
  },
  async enforced_schemas() {
    const name = `${plan.enforced}js`;
    await register(name);
    const made = producer(name).then(() => 'made', () => 'refused');
    same(await Promise.race([made, new Promise((resolve) => setTimeout(resolve, 3000, 'waits'))]), 'refused');
    await consumer(name);
  },
  async unsubscribe() {
    await (await consumer(topic('unsub'))).unsubscribe();
  },
};

async function run(name) {
  let error = null;
  try {
    let timer;
    const late = new Promise((_, reject) => (timer = setTimeout(reject, 15000, new Error('took too long'))));
    await Promise.race([features[name](), late]);
    clearTimeout(timer);
  } catch (failure) {
    error = String(failure?.stack?.split('\n')[0] ?? failure).slice(0, 300);
  }
  process.stdout.write(`${JSON.stringify(error ? { feature: name, ok: false, error } : { feature: name, ok: true })}\n`);
}

process.on('unhandledRejection', () => undefined);
const asked = Object.keys(features).filter((name) => !plan.only || plan.only.split(',').includes(name));
Promise.all(asked.map(run)).then(() => process.exit(0));
