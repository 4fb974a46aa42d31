#include "signature.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "error.h"
#include "json_text.h"

namespace aot_rt {
namespace {

constexpr int kEd25519 = 1087;  // EVP_PKEY_ED25519, in every version
constexpr const char* kType = "application/vnd.aot-package.manifest+json";
constexpr std::string_view kBegin = "-----BEGIN PUBLIC KEY-----";
constexpr std::string_view kEnd = "-----END PUBLIC KEY-----";
// What precedes the key in DER: the algorithm id-Ed25519 (RFC 8410).
constexpr uint8_t kDerPrefix[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                  0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

template <size_t N>
bool read_hex(std::string_view text, std::array<uint8_t, N>* out) {
  if (text.size() != 2 * N) return false;
  for (size_t i = 0; i < N; ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    (*out)[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

std::vector<uint8_t> read_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) continue;  // line ends and padding
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> count));
  }
  return bytes;
}

bool read_pem(std::string_view text, PublicKey* key) {
  const size_t begin = text.find(kBegin);
  const size_t end = text.find(kEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return false;
  const size_t from = begin + kBegin.size();
  const std::vector<uint8_t> der = read_base64(text.substr(from, end - from));
  constexpr size_t kPrefix = sizeof(kDerPrefix);
  if (der.size() != kPrefix + key->size()) return false;
  if (!std::equal(kDerPrefix, kDerPrefix + kPrefix, der.begin())) return false;
  std::copy(der.begin() + kPrefix, der.end(), key->begin());
  return true;
}

template <typename Function>
bool find_function(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

// What is signed: DSSE's encoding of the type and the manifest, so that a signature means nothing
// else anywhere.
std::string signed_text(Bytes manifest) {
  std::string text =
      cat("DSSEv1 ", std::string_view(kType).size(), " ", kType, " ", manifest.size, " ");
  text.append(reinterpret_cast<const char*>(manifest.data), manifest.size);
  return text;
}

}  // namespace

PublicKey parse_key(const std::string& text) {
  PublicKey key{};
  if (read_hex(text, &key) || read_pem(text, &key)) return key;
  fail(AOT_INVALID_ARGUMENT,
       "a policy's key is no Ed25519 public key: 64 hexadecimal digits, or "
       "PEM (the content of the .pub file that `aot-package keygen` writes)");
}

std::string key_text(const PublicKey& key) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : key) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

std::vector<Signature> parse_signatures(const std::string& text) {
  std::vector<Signature> signatures;
  if (text.empty()) return signatures;
  const JsonPtr json =
      parse_json({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, "signatures");
  const Field root(*json, "signatures");
  for (size_t i = 0; i < root.size(); ++i) {
    const Field row = root.at(i);
    const Field algorithm = row.at("algorithm");
    if (algorithm.text() != "ed25519") continue;  // a newer one, which no key here has made
    const Field key = row.at("key");
    const Field bytes = row.at("signature");
    Signature signature{};
    if (!read_hex(key.text(), &signature.key)) key.wrong("is no public key");
    if (!read_hex(bytes.text(), &signature.bytes)) bytes.wrong("is no signature");
    signatures.push_back(signature);
  }
  return signatures;
}

const std::vector<std::string>& Crypto::usual_libraries() {
  static const std::vector<std::string> names = {"libcrypto.so.3", "libcrypto.so.1.1"};
  return names;
}

Crypto::Crypto(const std::vector<std::string>& libraries) {
  std::string tried;
  for (const std::string& name : libraries) {
    void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr && find_functions(library)) return;
    const char* why = library == nullptr ? ::dlerror() : "it has no Ed25519";
    tried += cat(tried.empty() ? "" : "; ", name, ": ", why);
  }
  fail(AOT_REFUSED,
       "the policy wants signatures, which this machine cannot check: install "
       "OpenSSL's libcrypto, 1.1.1 or newer (",
       tried, ")");
}

bool Crypto::find_functions(void* library) {
  return find_function(library, "EVP_PKEY_new_raw_public_key", &functions_.new_public_key) &&
         find_function(library, "EVP_PKEY_free", &functions_.free_key) &&
         find_function(library, "EVP_MD_CTX_new", &functions_.new_context) &&
         find_function(library, "EVP_MD_CTX_free", &functions_.free_context) &&
         find_function(library, "EVP_DigestVerifyInit", &functions_.init) &&
         find_function(library, "EVP_DigestVerify", &functions_.verify);
}

bool Crypto::verify(const Signature& signature, Bytes manifest) const {
  const std::string text = signed_text(manifest);
  const std::unique_ptr<void, void (*)(void*)> key(
      functions_.new_public_key(kEd25519, nullptr, signature.key.data(), signature.key.size()),
      functions_.free_key);
  const std::unique_ptr<void, void (*)(void*)> context(functions_.new_context(),
                                                       functions_.free_context);
  if (key == nullptr || context == nullptr) return false;
  if (functions_.init(context.get(), nullptr, nullptr, nullptr, key.get()) != 1) return false;
  return functions_.verify(context.get(), signature.bytes.data(), signature.bytes.size(),
                           reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1;
}

}  // namespace aot_rt
