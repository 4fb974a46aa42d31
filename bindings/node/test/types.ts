// Compiled by the tests, not run: the declarations say what lib/index.js does.
import { AotError, Output, Package, Session, TensorInfo, cpuIsa } from '../lib';

async function use(): Promise<number> {
  const model: Package = Package.open('model.pkg', { verify: 'full', keys: ['ab'] });
  const session: Session = model.session({ device: 'cpu', numThreads: 1 });
  const info: TensorInfo = model.inputs[0];
  const size: number | null = info.dims[0].size;
  const [y]: Output[] = await session.run([{ data: new Float32Array(8), shape: [2, 4] }], {
    timeoutMs: 5,
    signal: new AbortController().signal,
  });
  const named = session.runSync({ x: { data: new Uint16Array(2), dtype: 'bfloat16' } });
  // @ts-expect-error: an array of numbers is no typed array
  await session.run([[1, 2]]);
  // @ts-expect-error: no such type
  session.runSync([{ data: new Float32Array(1), dtype: 'float8' }]);
  try {
    session.setState(0, new BigInt64Array(1));
  } catch (error) {
    if (error instanceof AotError) return error.code.length;
  }
  return y.shape.length + named['y'].shape.length + (size ?? 0) + cpuIsa.length;
}
export { use };
