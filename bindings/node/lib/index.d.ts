/** Runs packages of aot-package: load one, make a session, give it typed arrays. */

export type DType =
  | 'float32' | 'float64' | 'float16' | 'bfloat16'
  | 'int8' | 'int16' | 'int32' | 'int64'
  | 'uint8' | 'uint16' | 'uint32' | 'uint64'
  | 'bool' | 'complex64' | 'complex128';

/** float16 and bfloat16 are in a Uint16Array, bool in a Uint8Array, complex numbers in pairs. */
export type TypedArray =
  | Float32Array | Float64Array
  | Int8Array | Int16Array | Int32Array | BigInt64Array
  | Uint8Array | Uint8ClampedArray | Uint16Array | Uint32Array | BigUint64Array;

export interface Tensor {
  data: TypedArray;
  /** Of an input: as the model says, where left out. */
  dtype?: DType;
  /** In C order. Of an input: one dimension, where left out. */
  shape?: number[];
}

export interface Output {
  data: TypedArray;
  dtype: string;
  shape: number[];
}

export interface Dim {
  /** null: dynamic. */
  size: number | null;
  min: number;
  /** null: unbounded. */
  max: number | null;
  multipleOf: number;
  label: string;
}

export interface TensorInfo {
  name: string;
  dtype: string;
  dims: Dim[];
  /** Of an input: a run writes a new value into it. */
  changed: boolean;
}

export interface PackageOptions {
  /** 'full': every byte, now; 'lazy': weights too, when a session is made. */
  verify?: 'default' | 'full' | 'lazy';
  /** The file of the weights, where the package does not hold them. */
  weights?: string;
  /** Ed25519 public keys (hexadecimal or PEM): one of them must have signed the package. */
  keys?: string[];
  noOperatorLibraries?: boolean;
  requireProved?: boolean;
  /** Reads the files into memory, in large pages where the system has them, and maps none. */
  copy?: boolean;
}

export interface SessionOptions {
  /** 'cpu', 'cuda', 'cuda:1'. */
  device?: string;
  /** 'x86-64-v3'; the best where left out. */
  isa?: string;
  /** 0: all physical cores that the process may use. */
  numThreads?: number;
}

export interface RunOptions {
  /** A run that takes longer fails with DEADLINE_EXCEEDED. */
  timeoutMs?: number;
}

export interface AsyncRunOptions extends RunOptions {
  /** Ends the run: it fails with CANCELLED. */
  signal?: AbortSignal;
}

export type Inputs = ReadonlyArray<Tensor | TypedArray>;
export type NamedInputs = Readonly<Record<string, Tensor | TypedArray>>;
export type NamedOutputs = Record<string, Output>;

/** A failure of the runtime, with its message. */
export class AotError extends Error {
  readonly name: 'AotError';
  /** 'SHAPE_MISMATCH', 'NOT_FOUND' and so on: the codes of abi.h. */
  readonly code: string;
  /** The line of the model behind the failing step, or ''. */
  readonly origin: string;
}

export class Package {
  private constructor();
  static open(file: string, options?: PackageOptions): Package;
  readonly inputs: TensorInfo[];
  readonly outputs: TensorInfo[];
  readonly states: TensorInfo[];
  session(options?: SessionOptions): Session;
  loadWeights(file: string, options?: { partial?: boolean }): void;
}

export class Session {
  private constructor();
  readonly isa: string;
  readonly numThreads: number;
  /** On another thread; inputs are copied at once. Runs of one session follow each other. */
  run(inputs: Inputs, options?: AsyncRunOptions): Promise<Output[]>;
  run(inputs: NamedInputs, options?: AsyncRunOptions): Promise<NamedOutputs>;
  /** Here and now; inputs are read in place. */
  runSync(inputs: Inputs, options?: RunOptions): Output[];
  runSync(inputs: NamedInputs, options?: RunOptions): NamedOutputs;
  state(name: string | number): TypedArray;
  setState(name: string | number, values: TypedArray): void;
  reset(): void;
  clone(): Session;
  close(): void;
}

/** The best instruction set level of this CPU. */
export const cpuIsa: string;
export const runtimeVersion: string;
