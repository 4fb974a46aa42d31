// The manifest: what every byte of a package's files must be (docs/format.md, "Manifest").
#ifndef AOT_SRC_MANIFEST_H_
#define AOT_SRC_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "safetensors.h"

namespace aot_rt {

// One entry: what its row of the header says, and the digests of its bytes, in hex.
struct ManifestRow {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string sha256;
  std::vector<std::string> blocks;  // of an entry above a block's size: of each block
};

// The digests, of all entries but the manifest and fillers.
struct Manifest {
  size_t block_bytes = 0;
  std::vector<ManifestRow> rows;
};

// Whether the package's header is, byte for byte, the one that its manifest was written with, and
// the manifest the one that the header names. Its beginning repeats what the header says, so that
// this takes no more than a hash of each. False for a package of format 1.0, which has no manifest.
// Throws CORRUPT_PACKAGE.
bool check_headers(const Container& container);

// The same check of the file that holds the weights, whose container was added to the package's.
void check_weights_header(const Container& container);

// What the manifest of a package says, whose headers were checked. Throws CORRUPT_PACKAGE.
Manifest read_manifest(const Container& container);

}  // namespace aot_rt

#endif  // AOT_SRC_MANIFEST_H_
