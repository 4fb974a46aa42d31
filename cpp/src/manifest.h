// The manifest: what every byte of a package's files must be (docs/format.md, "Manifest").
#ifndef AOT_SRC_MANIFEST_H_
#define AOT_SRC_MANIFEST_H_

#include <cstdint>
#include <memory>
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

// The entries of one file, in its order, without fillers.
struct ManifestFile {
  std::string version;  // "1.1"
  std::vector<ManifestRow> rows;
};

struct Manifest {
  size_t block_bytes = 0;
  ManifestFile package;      // without the manifest itself, whose digest the header has
  std::string weights_file;  // "": the package holds its weights
  std::string weights_sha256;
  ManifestFile weights;
};

// The manifest of a package, whose header and own digest are right by then: the header is, byte for
// byte, the one that follows from the manifest. nullptr for a package of format 1.0, which has
// none. Throws CORRUPT_PACKAGE.
std::shared_ptr<const Manifest> read_manifest(const Container& container);

// The same check of the file that holds the weights, whose container was added to the package's.
void check_weights_header(const Container& container, const Manifest& manifest);

}  // namespace aot_rt

#endif  // AOT_SRC_MANIFEST_H_
