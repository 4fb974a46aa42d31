// Loads a package and runs it once.
//   aot-package examples/01_mlp/model.py -o mlp.pkg && node bindings/node/examples/run.js mlp.pkg
'use strict';

const { Package } = require('..');

async function main() {
  const session = Package.open(process.argv[2] ?? 'mlp.pkg').session();
  const x = { data: new Float32Array(8 * 64).fill(0.5), shape: [8, 64] };
  const [y] = await session.run([x]);
  console.log([...y.data.subarray(0, y.shape[1])].map((value) => value.toFixed(4)).join(' '));
}

main().catch((error) => {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
});
