#include "trust_package.h"

#include <dlfcn.h>

#include <algorithm>

#include "sha256.h"

namespace aot_test {
namespace {

std::string sha256(const std::string& bytes) {
  return aot_rt::sha256_hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

std::string hex(const std::vector<unsigned char>& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

nlohmann::ordered_json row_of(const Builder::Entry& entry, size_t block_bytes) {
  nlohmann::ordered_json row = {{"name", entry.name},
                                {"dtype", entry.dtype},
                                {"shape", entry.shape},
                                {"sha256", sha256(entry.bytes)}};
  for (size_t at = 0; entry.bytes.size() > block_bytes && at < entry.bytes.size();
       at += block_bytes) {
    row["blocks"].push_back(sha256(entry.bytes.substr(at, block_bytes)));
  }
  return row;
}

void* crypto() {
  static void* const library = [] {
    void* const newest = ::dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    return newest != nullptr ? newest : ::dlopen("libcrypto.so.1.1", RTLD_NOW | RTLD_LOCAL);
  }();
  return library;
}

template <typename Function>
Function function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(crypto(), name));
}

}  // namespace

void Sealed::write_header() {
  nlohmann::ordered_json table = {{"__metadata__", metadata}};
  for (const auto& [name, row] : rows.items()) table[name] = row;
  header = assemble(table.dump(), "");
}

void Sealed::add_signatures(const json& list) {
  metadata["signatures"] = list.dump();
  metadata["signatures_sha256"] = sha256(list.dump());
  write_header();
}

Sealed seal(const Builder& builder, size_t block_bytes) {
  Sealed sealed;
  const std::string plan = builder.plan.dump();
  std::vector<Builder::Entry> entries = {{"plan", "U8", json::array({plan.size()}), plan}};
  entries.insert(entries.end(), builder.entries.begin(), builder.entries.end());
  const std::string unknown(64, '0');
  sealed.manifest = {{"format", "1.1"},
                     {"plan_sha256", sha256(plan)},
                     {"rows_sha256", unknown},
                     {"block_bytes", block_bytes},
                     {"entries", nlohmann::ordered_json::array()}};
  for (const Builder::Entry& entry : entries) {
    sealed.manifest["entries"].push_back(row_of(entry, block_bytes));
  }
  std::string manifest = sealed.manifest.dump();
  sealed.manifest_size = manifest.size();
  entries.insert(entries.begin() + 1, {"manifest", "U8", json::array({manifest.size()}), manifest});
  size_t pads = 0;
  const auto place = [&sealed](const Builder::Entry& entry) {
    sealed.rows[entry.name] = {
        {"dtype", entry.dtype},
        {"shape", entry.shape},
        {"data_offsets", {sealed.data.size(), sealed.data.size() + entry.bytes.size()}}};
    sealed.data += entry.bytes;
  };
  for (const Builder::Entry& entry : entries) {
    if (const size_t gap = (64 - sealed.data.size() % 64) % 64; gap != 0) {
      place({"pad/" + std::to_string(pads++), "U8", json::array({gap}), std::string(gap, '\0')});
    }
    if (entry.name == "manifest") sealed.manifest_at = sealed.data.size();
    place(entry);
  }
  sealed.manifest["rows_sha256"] = sha256("," + sealed.rows.dump().substr(1));
  manifest = sealed.manifest.dump();
  sealed.data.replace(sealed.manifest_at, manifest.size(), manifest);
  sealed.metadata = {{"format", "aot-package"},
                     {"format_version", "1.1"},
                     {"plan_sha256", sha256(plan)},
                     {"manifest_sha256", sha256(manifest)}};
  sealed.write_header();
  return sealed;
}

bool Signer::available() { return crypto() != nullptr; }

Signer::Signer(uint8_t seed) : key_(nullptr) {
  using Make = void* (*)(int, void*, const unsigned char*, size_t);
  const std::vector<unsigned char> secret(32, seed);
  key_ = function<Make>("EVP_PKEY_new_raw_private_key")(1087, nullptr, secret.data(), 32);
}

Signer::~Signer() { function<void (*)(void*)>("EVP_PKEY_free")(key_); }

std::string Signer::key() const {
  using Get = int (*)(const void*, unsigned char*, size_t*);
  std::vector<unsigned char> bytes(32);
  size_t size = bytes.size();
  function<Get>("EVP_PKEY_get_raw_public_key")(key_, bytes.data(), &size);
  return hex(bytes);
}

std::string Signer::pem() const {
  const std::string der = "302a300506032b6570032100" + key();
  std::string bits;
  for (const char digit : der) {
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    for (int bit = 3; bit >= 0; --bit) bits += (value >> bit) & 1 ? '1' : '0';
  }
  while (bits.size() % 6 != 0) bits += '0';
  std::string text = "-----BEGIN PUBLIC KEY-----\n";
  for (size_t i = 0; i < bits.size(); i += 6) {
    const auto value = static_cast<size_t>(std::stoi(bits.substr(i, 6), nullptr, 2));
    text += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[value];
  }
  return text + "=\n-----END PUBLIC KEY-----\n";
}

json Signer::sign(const std::string& manifest) const {
  using New = void* (*)();
  using Init = int (*)(void*, void**, const void*, void*, void*);
  using Sign = int (*)(void*, unsigned char*, size_t*, const unsigned char*, size_t);
  const std::string type = "application/vnd.aot-package.manifest+json";
  const std::string text = "DSSEv1 " + std::to_string(type.size()) + " " + type + " " +
                           std::to_string(manifest.size()) + " " + manifest;
  void* const context = function<New>("EVP_MD_CTX_new")();
  std::vector<unsigned char> signature(64);
  size_t size = signature.size();
  function<Init>("EVP_DigestSignInit")(context, nullptr, nullptr, nullptr, key_);
  function<Sign>("EVP_DigestSign")(context, signature.data(), &size,
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   text.size());
  function<void (*)(void*)>("EVP_MD_CTX_free")(context);
  return {{"algorithm", "ed25519"}, {"key", key()}, {"signature", hex(signature)}};
}

}  // namespace aot_test
