// Builds the addon into prebuilds/, beside a copy of the runtime's library: what `npm pack` ships.
// AOT_RUNTIME_PREFIX: where the runtime is installed; else what `aot-runtime --prefix` says.
// CXX: the compiler (g++).
'use strict';

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');
const place = path.join(root, 'prebuilds', `${process.platform}-${process.arch}`);

function prefix() {
  if (process.env.AOT_RUNTIME_PREFIX) return process.env.AOT_RUNTIME_PREFIX;
  try {
    return execFileSync('aot-runtime', ['--prefix'], { encoding: 'utf8' }).trim();
  } catch {
    throw new Error(
      'the runtime was not found: set AOT_RUNTIME_PREFIX to the folder that it is installed in, ' +
        'or install the wheel aot-runtime',
    );
  }
}

function libraryIn(folder) {
  for (const name of ['lib', 'lib64']) {
    const library = path.join(folder, name, 'libaot_runtime.so');
    if (fs.existsSync(library)) return library;
  }
  throw new Error(`no libaot_runtime.so below ${folder}`);
}

/** The name by which the addon will ask for the library. */
function nameOf(library) {
  const told = execFileSync('readelf', ['-d', library], { encoding: 'utf8' });
  return /SONAME.*\[(.+)\]/.exec(told)?.[1] ?? 'libaot_runtime.so';
}

const from = prefix();
const library = libraryIn(from);
fs.mkdirSync(place, { recursive: true });
fs.copyFileSync(library, path.join(place, nameOf(library)));
const headers = path.dirname(require.resolve('node-api-headers/package.json'));
const wrapper = path.dirname(require.resolve('node-addon-api/package.json'));
const sources = ['addon.cc', 'tensors.cc'].map((name) => path.join(root, 'src', name));
execFileSync(
  process.env.CXX ?? 'g++',
  [
    ...['-std=c++17', '-O2', '-fPIC', '-shared', '-fvisibility=hidden', '-Wall', '-Wextra'],
    ...['-DNAPI_VERSION=8', '-DNAPI_CPP_EXCEPTIONS', '-s'],
    ...['-isystem', path.join(headers, 'include'), '-isystem', wrapper],
    ...[`-I${path.join(from, 'include')}`, ...sources],
    ...['-o', path.join(place, 'aot_runtime.node'), library, '-Wl,-rpath,$ORIGIN'],
  ],
  { stdio: 'inherit' },
);
