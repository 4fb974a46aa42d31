// Reads the container: a safetensors file with the package's stricter rules (docs/format.md).
#ifndef AOT_SRC_SAFETENSORS_H_
#define AOT_SRC_SAFETENSORS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mapped_file.h"

namespace aot_rt {

struct Entry {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<int64_t> shape;
  Bytes bytes;
};

// All entries, sorted by name.
class Container {
 public:
  // Checks everything that can be checked without touching the data. The header is copied before it
  // is read: `file` may be shared with others who write. It must outlive this.
  // Throws CORRUPT_PACKAGE (each way to be wrong has its own message) or INCOMPATIBLE.
  static Container read(Bytes file);

  // The same for a file that holds the weights of a package.
  static Container read_weights(Bytes file);

  // The same for any safetensors file: no metadata is needed, and entries may begin anywhere.
  static Container read_tensors(Bytes file);

  const std::vector<Entry>& entries() const { return entries_; }
  const Entry* find(std::string_view name) const;  // nullptr when absent

  // The metadata's text of these keys; "" in files without them. `plan_sha256` and
  // `manifest_sha256` are of the entries of that name, `signatures_sha256` of the text
  // `signatures`.
  const std::string& version() const { return version_; }
  const std::string& plan_sha256() const { return plan_sha256_; }
  const std::string& manifest_sha256() const { return manifest_sha256_; }
  const std::string& signatures() const { return signatures_; }
  const std::string& signatures_sha256() const { return signatures_sha256_; }

  // The text of the header as it was read, fillers included, and that of the other file.
  const std::string& header() const { return header_; }
  const std::string& weights_header() const { return weights_header_; }
  void forget_headers();

  // Puts an entry's bytes into memory of this container's own, where nobody else changes them: what
  // is checked there is what is used. Nothing when there is none of that name.
  void own(std::string_view name);

  // The name of the file beside the package that holds its weights; "" when the package does.
  const std::string& weights_file() const { return weights_file_; }
  // The hash of the names and hashes of that file's entries, which both files say.
  const std::string& weights_sha256() const { return weights_sha256_; }

  // Takes the entries of the package's other file. Throws CORRUPT_PACKAGE when it belongs to
  // another package, or an entry is in both.
  void add(Container weights);

 private:
  enum class Kind : uint8_t { kPackage, kWeights, kTensors };
  static Container read_as(Kind kind, Bytes file);

  std::vector<Entry> entries_;
  std::vector<std::shared_ptr<const std::string>> owned_;
  std::string header_;
  std::string weights_header_;
  std::string version_;
  std::string plan_sha256_;
  std::string manifest_sha256_;
  std::string signatures_;
  std::string signatures_sha256_;
  std::string weights_file_;
  std::string weights_sha256_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_SAFETENSORS_H_
