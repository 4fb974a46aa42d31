// Signatures of a package: Ed25519 over its manifest, checked by OpenSSL's libcrypto.
#ifndef AOT_SRC_SIGNATURE_H_
#define AOT_SRC_SIGNATURE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mapped_file.h"

namespace aot_rt {

using PublicKey = std::array<uint8_t, 32>;

struct Signature {
  PublicKey key;
  std::array<uint8_t, 64> bytes;
};

// A public key from 64 hexadecimal digits, or from PEM ("-----BEGIN PUBLIC KEY-----"). Throws
// INVALID_ARGUMENT.
PublicKey parse_key(const std::string& text);
// In hexadecimal.
std::string key_text(const PublicKey& key);

// The metadata's text `signatures`; none for "". Throws CORRUPT_PACKAGE.
std::vector<Signature> parse_signatures(const std::string& text);

// libcrypto, opened when a policy first wants signatures. It stays open.
class Crypto {
 public:
  // The first of these libraries that can be used. Throws REFUSED, which says why none can.
  explicit Crypto(const std::vector<std::string>& libraries);

  // Whether the signature is the key's, over this manifest.
  bool verify(const Signature& signature, Bytes manifest) const;

  // Names of the library, newest first.
  static const std::vector<std::string>& usual_libraries();

 private:
  bool find_functions(void* library);

  struct Functions {
    void* (*new_public_key)(int type, void* engine, const unsigned char* key, size_t size);
    void (*free_key)(void* key);
    void* (*new_context)();
    void (*free_context)(void* context);
    int (*init)(void* context, void** key_context, const void* digest, void* engine, void* key);
    int (*verify)(void* context, const unsigned char* signature, size_t signature_size,
                  const unsigned char* data, size_t size);
  };
  Functions functions_{};
};

}  // namespace aot_rt

#endif  // AOT_SRC_SIGNATURE_H_
