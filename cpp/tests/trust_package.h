// Packages with a manifest, and signatures, for tests: written as docs/format.md says, not with the
// runtime's own code.
#ifndef AOT_TESTS_TRUST_PACKAGE_H_
#define AOT_TESTS_TRUST_PACKAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "package_builder.h"

namespace aot_test {

// A package of format 1.1 in parts.
struct Sealed {
  std::string header;  // the length included
  std::string data;
  nlohmann::ordered_json manifest;
  size_t manifest_at = 0;  // in `data`
  size_t manifest_size = 0;
  nlohmann::ordered_json metadata;
  nlohmann::ordered_json rows;

  std::string file() const { return header + data; }
  std::string manifest_text() const { return data.substr(manifest_at, manifest_size); }
  // Writes the header again, after changes of the metadata or the rows.
  void write_header();
  // Puts signatures into the metadata, with their checksum.
  void add_signatures(const json& list);
};

// The builder's package with a manifest, whose blocks have so many bytes.
Sealed seal(const Builder& builder, size_t block_bytes = size_t{4} << 20);

// An Ed25519 key that signs, by libcrypto; `available()` is false where there is none.
class Signer {
 public:
  // Its private key is 32 times this byte.
  explicit Signer(uint8_t seed);
  ~Signer();
  Signer(const Signer&) = delete;
  Signer& operator=(const Signer&) = delete;

  static bool available();
  std::string key() const;  // the public one, in hex
  std::string pem() const;  // the same
  // The row of the metadata's `signatures` for a manifest.
  json sign(const std::string& manifest) const;

 private:
  void* key_;
};

}  // namespace aot_test

#endif  // AOT_TESTS_TRUST_PACKAGE_H_
