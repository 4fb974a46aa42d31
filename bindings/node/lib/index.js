'use strict';

const path = require('node:path');

const native = require(
  path.join(__dirname, '..', 'prebuilds', `${process.platform}-${process.arch}`, 'aot_runtime.node'),
);

/** A failure of the runtime: `code` is "SHAPE_MISMATCH" and so on, `origin` the line of the model. */
class AotError extends Error {
  constructor(message, code, origin = '') {
    super(message);
    this.name = 'AotError';
    this.code = code;
    this.origin = origin;
  }
}

const FAILED_CODE = /^[A-Z_]+$/;

/** Errors of the addon that have a code of the library become `AotError`. */
function translated(error) {
  const ours = error instanceof Error && FAILED_CODE.test(error.code ?? '') && 'origin' in error;
  return ours ? new AotError(error.message, error.code, error.origin) : error;
}

function guarded(action) {
  try {
    return action();
  } catch (error) {
    throw translated(error);
  }
}

/** Element type -> the class of arrays that holds it. */
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  complex64: Float32Array,
  complex128: Float64Array,
};

/** The class of arrays -> the type that its elements are where nothing else is said. */
const PLAIN = new Map(
  ['float32', 'float64', 'int8', 'int16', 'int32', 'int64']
    .concat(['uint8', 'uint16', 'uint32', 'uint64'])
    .map((name) => [ARRAYS[name], name]),
);
PLAIN.set(Uint8ClampedArray, 'uint8');

function invalid(message) {
  return new AotError(message, 'INVALID_ARGUMENT');
}

/** What the addon takes for one input; `info` is what the model says of it. */
function input(given, info, position) {
  const called = info ? `input '${info.name}'` : `input ${position}`;
  const { data, shape, dtype } = ArrayBuffer.isView(given) ? { data: given } : (given ?? {});
  const kind = PLAIN.get(Object.getPrototypeOf(data ?? {})?.constructor) ?? bufferKind(data);
  if (!kind) throw invalid(`${called} is no typed array, and no { data, shape } of one`);
  if (dtype !== undefined && !(dtype in ARRAYS)) throw invalid(`${called}: no type is '${dtype}'`);
  const fits = info && ARRAYS[info.dtype] === ARRAYS[kind];
  const sizes = shape ?? [data.length];
  if (!Array.isArray(sizes) || !sizes.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    throw invalid(`${called}: the shape is no array of sizes`);
  }
  return { data, dtype: dtype ?? (fits ? info.dtype : kind), shape: sizes };
}

function bufferKind(data) {
  return data instanceof Uint8Array ? 'uint8' : undefined; // Buffer
}

function indexOf(list, what, name) {
  const index = typeof name === 'number' ? name : list.findIndex((row) => row.name === name);
  if (index >= 0 && index < list.length) return index;
  const names = list.map((row) => row.name).join(', ') || 'none';
  throw new AotError(`no ${what} is named '${name}'; there are: ${names}`, 'NOT_FOUND');
}

/** A package made ready to run. */
class Session {
  #native;
  #contract;

  constructor(made, contract) {
    this.#native = made;
    this.#contract = contract;
  }

  /** "x86-64-v3", "sm_90". */
  get isa() {
    return guarded(() => this.#native.isa);
  }

  get numThreads() {
    return guarded(() => this.#native.numThreads);
  }

  /** Runs the model on another thread. Inputs are copied at once. */
  async run(inputs, { timeoutMs = 0, signal } = {}) {
    const given = this.#inputs(inputs);
    const cancellation = signal && new native.Cancellation();
    const cancel = () => cancellation.cancel();
    if (signal?.aborted) cancel();
    signal?.addEventListener('abort', cancel);
    try {
      return this.#outputs(inputs, await this.#native.run(given, timeoutMs, cancellation));
    } catch (error) {
      throw translated(error);
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** Runs the model here and now; inputs are read in place. */
  runSync(inputs, { timeoutMs = 0 } = {}) {
    const given = this.#inputs(inputs);
    return guarded(() => this.#outputs(inputs, this.#native.runSync(given, timeoutMs)));
  }

  /** A copy of a state's elements, by position or name. */
  state(name) {
    const index = indexOf(this.#contract.states, 'state', name);
    return guarded(() => this.#native.state(index));
  }

  setState(name, values) {
    const index = indexOf(this.#contract.states, 'state', name);
    const { dtype } = this.#contract.states[index];
    if (!(values instanceof ARRAYS[dtype])) throw invalid(`state '${name}' has elements of ${dtype}`);
    guarded(() => this.#native.setState(index, values));
  }

  /** Gives every state its first value again. */
  reset() {
    guarded(() => this.#native.reset());
  }

  /** A second session that goes on from the states of this one. */
  clone() {
    return guarded(() => new Session(this.#native.clone(), this.#contract));
  }

  /** Frees it when its last run is over; collection does the same later. */
  close() {
    this.#native.close();
  }

  #inputs(inputs) {
    const { inputs: rows } = this.#contract;
    if (Array.isArray(inputs)) return inputs.map((one, i) => input(one, rows[i], i));
    if (inputs === null || typeof inputs !== 'object') {
      throw invalid('inputs are an array, or an object by name');
    }
    Object.keys(inputs).forEach((name) => indexOf(rows, 'input', name));
    return rows.map((row, i) => input(inputs[row.name], row, i));
  }

  #outputs(inputs, outputs) {
    if (Array.isArray(inputs)) return outputs;
    return Object.fromEntries(outputs.map((one, i) => [this.#contract.outputs[i].name, one]));
  }
}

/** An open package. */
class Package {
  #native;
  #contract;

  constructor(opened) {
    this.#native = opened;
    this.#contract = opened.contract();
  }

  /** Maps and checks a file, which must not be changed in place while it is open. */
  static open(file, options = {}) {
    return guarded(() => new Package(new native.Package(String(file), options)));
  }

  get inputs() {
    return this.#contract.inputs;
  }

  get outputs() {
    return this.#contract.outputs;
  }

  get states() {
    return this.#contract.states;
  }

  session(options = {}) {
    return guarded(() => new Session(this.#native.session(options), this.#contract));
  }

  /** New weights from a safetensors file, in all sessions at once. */
  loadWeights(file, { partial = false } = {}) {
    guarded(() => this.#native.loadWeights(String(file), partial));
  }
}

module.exports = {
  AotError,
  Package,
  Session,
  cpuIsa: native.cpuIsa,
  runtimeVersion: native.runtimeVersion,
};
