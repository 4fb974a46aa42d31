// Runs packages: tests/bindings/test_node.py makes them, and says where they are.
'use strict';

const assert = require('node:assert/strict');
const path = require('node:path');
const { test } = require('node:test');
const { Worker } = require('node:worker_threads');

const { AotError, Package, cpuIsa, runtimeVersion } = require(process.env.AOT_TEST_MODULE ?? '..');

const FOLDER = process.env.AOT_TEST_PACKAGES;
assert(FOLDER, 'AOT_TEST_PACKAGES: run these tests by `pytest tests/bindings/test_node.py`');
const WEIGHT = [1, -2, 0.5, 3]; // relu.pkg is relu(x * w)
const open = (name, options) => Package.open(path.join(FOLDER, name), options);
const rows = (count) => Float32Array.from({ length: 4 * count }, (_, i) => i - 6);
const relu = (x) => x.map((value, i) => Math.max(value * WEIGHT[i % 4], 0));
const tensor = (data) => ({ data, shape: [data.length / 4, 4] });

test('a run gives what the model gives', async () => {
  const session = open('relu.pkg').session();
  for (const count of [1, 3, 64]) {
    const x = rows(count);
    const [y] = await session.run([tensor(x)]);
    assert.deepEqual(y, { data: relu(x), dtype: 'float32', shape: [count, 4] });
    assert.deepEqual(session.runSync([tensor(x)]), [y]);
  }
  assert.match(session.isa, /^x86-64-v/);
  assert(session.numThreads >= 1);
  assert.match(cpuIsa, /^x86-64-v/);
  assert.match(runtimeVersion, /^\d+\.\d+\.\d+$/);
});

test('a package tells its contract', () => {
  const { inputs, outputs, states } = open('relu.pkg');
  assert.equal(inputs.length, 1);
  assert.equal(inputs[0].dtype, 'float32');
  assert.deepEqual([inputs[0].dims[0].size, inputs[0].dims[0].max], [null, 64]);
  assert.equal(inputs[0].dims[1].size, 4);
  assert.deepEqual([outputs.length, states.length], [1, 0]);
});

test('inputs and outputs go by name', async () => {
  const package_ = open('relu.pkg');
  const [input, output] = [package_.inputs[0].name, package_.outputs[0].name];
  const x = rows(2);
  const named = await package_.session().run({ [input]: tensor(x) });
  assert.deepEqual(named[output].data, relu(x));
  await assert.rejects(package_.session().run({ [input]: tensor(x), other: x }), (error) => {
    assert.equal(error.code, 'NOT_FOUND');
    assert(error.message.includes(input));
    return true;
  });
  await assert.rejects(package_.session().run({}), { code: 'INVALID_ARGUMENT' });
});

test('runs at the same time do not disturb each other', async () => {
  const package_ = open('relu.pkg');
  const sessions = [package_.session(), package_.session()];
  const runs = Array.from({ length: 200 }, async (_, number) => {
    const x = rows(1 + (number % 7));
    const pending = sessions[number % 2].run([tensor(x)]);
    const expected = relu(x);
    x.fill(NaN); // the run has a copy
    assert.deepEqual((await pending)[0].data, expected);
  });
  await Promise.all(runs);
});

test('the event loop goes on during a run', async () => {
  const session = open('relu.pkg').session();
  let settled = false;
  const pending = session.run([tensor(rows(1))]).then(() => (settled = true));
  assert.equal(settled, false);
  await pending;
});

test('large outputs outlive sessions and collections', async () => {
  let session = open('large.pkg').session();
  const kept = [];
  for (let turn = 0; turn < 40; ++turn) {
    const [y] = await session.run([new Float32Array(32768).fill(turn)]);
    if (turn % 4 === 0) kept.push([turn, y.data]);
    if (global.gc) global.gc();
  }
  session.close();
  session = undefined;
  if (global.gc) global.gc();
  for (const [turn, data] of kept) assert(data.every((value) => value === turn + 1));
});

test('what does not fit is refused with the message of the library', async () => {
  const session = open('relu.pkg').session();
  const wrong = { data: rows(2), shape: [4, 2] };
  assert.throws(() => session.runSync([wrong]), (error) => {
    assert(error instanceof AotError);
    assert.equal(error.code, 'SHAPE_MISMATCH');
    assert.match(error.message, /4/);
    return true;
  });
  await assert.rejects(session.run([wrong]), { name: 'AotError', code: 'SHAPE_MISMATCH' });
  const integers = { data: new BigInt64Array(8), shape: [2, 4] };
  assert.throws(() => session.runSync([integers]), { code: 'INVALID_ARGUMENT', message: /int64/ });
  assert.throws(() => session.runSync([]), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => session.runSync([{ data: rows(2), shape: [3, 4] }]), RangeError);
  for (const nonsense of [null, 7, 'x', [[1, 2]], [{ data: [1] }], [{ data: rows(1), shape: 4 }]]) {
    assert.throws(() => session.runSync(nonsense), { code: 'INVALID_ARGUMENT' });
  }
  assert.throws(() => session.runSync([{ data: rows(1), shape: [1, 4], dtype: 'float8' }]), AotError);
  assert.throws(() => Package.open('no/such.pkg'), { code: 'NOT_FOUND', message: /no\/such\.pkg/ });
  assert.throws(() => open('relu.pkg').session({ device: 'tpu' }), AotError);
});

test('a run ends when it is told to', async () => {
  const session = open('relu.pkg').session();
  const x = tensor(rows(2));
  await assert.rejects(session.run([x], { signal: AbortSignal.abort() }), { code: 'CANCELLED' });
  await assert.rejects(session.run([x], { timeoutMs: 1e-6 }), { code: 'DEADLINE_EXCEEDED' });
  const late = new AbortController();
  await session.run([x], { signal: late.signal });
  late.abort();
  await session.run([x]);
});

test('states and changed inputs are of the session', async () => {
  const package_ = open('counting.pkg');
  const session = package_.session();
  const [{ name }] = package_.states;
  const x = Float32Array.of(1, -2);
  const total = Float32Array.of(10, 20);
  await session.run([x, total]);
  const [, positive, integers] = session.runSync([x, total]);
  assert.deepEqual([...total], [12, 16]);
  assert.deepEqual(positive, { data: Uint8Array.of(1, 0), dtype: 'bool', shape: [2] });
  assert.deepEqual(integers.data, BigInt64Array.of(1n, -2n));
  assert.deepEqual(session.state(name), BigInt64Array.of(2n));

  const clone = session.clone();
  session.setState(0, BigInt64Array.of(7n));
  assert.deepEqual([session.state(0)[0], clone.state(name)[0]], [7n, 2n]);
  session.reset();
  assert.deepEqual(session.state(name), BigInt64Array.of(0n));
  assert.throws(() => session.setState(0, x), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => session.state('no such'), { code: 'NOT_FOUND' });
});

test('an array that is given away during a run is not written', async () => {
  const session = open('counting.pkg').session();
  const total = Float32Array.of(10, 20);
  const pending = session.run([Float32Array.of(1, 2), total]);
  const moved = structuredClone(total, { transfer: [total.buffer] });
  await pending;
  assert.deepEqual([total.length, ...moved], [0, 10, 20]);
});

test('a closed session is no longer run', async () => {
  const session = open('relu.pkg').session();
  const pending = session.run([tensor(rows(1))]);
  await pending;
  session.close();
  await assert.rejects(session.run([tensor(rows(1))]), /closed/);
});

test('a policy refuses what nobody signed', () => {
  assert.throws(() => open('relu.pkg', { keys: ['11'.repeat(32)] }), { code: 'REFUSED' });
  open('relu.pkg', { verify: 'full' });
});

test('worker threads load it too', async () => {
  const program = `
    const { parentPort, workerData } = require('node:worker_threads');
    const { Package } = require(workerData.module);
    const data = Float32Array.of(1, 1, 1, 1);
    Package.open(workerData.file).session().run([{ data, shape: [1, 4] }])
      .then(([y]) => parentPort.postMessage([...y.data]));`;
  const module_ = require.resolve(process.env.AOT_TEST_MODULE ?? '..');
  const workerData = { module: module_, file: path.join(FOLDER, 'relu.pkg') };
  const answers = [1, 2].map(() => {
    const worker = new Worker(program, { eval: true, workerData });
    return new Promise((resolve, reject) => {
      worker.once('message', (message) => resolve(worker.terminate().then(() => message)));
      worker.once('error', reject);
    });
  });
  for (const values of await Promise.all(answers)) assert.deepEqual(values, [1, 0, 0.5, 3]);
});
