#include "manifest.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "dtype.h"
#include "error.h"
#include "json_text.h"
#include "sha256.h"

namespace aot_rt {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLeastBlock = size_t{4} << 10;
constexpr size_t kHashDigits = 64;

std::string digest_of(const Field& field) {
  std::string text = field.text();
  const bool hex = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (text.size() != kHashDigits || !hex) field.wrong("is no SHA-256");
  return text;
}

// Bytes of a row; its dtype is known by then.
size_t row_bytes(const ManifestRow& row, const Field& shape) {
  uint64_t bytes = static_cast<uint64_t>(safetensors_size(row.dtype));
  for (const int64_t size : row.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      shape.wrong("is too large");
    }
  }
  return static_cast<size_t>(bytes);
}

ManifestRow read_row(const Field& f, size_t block_bytes) {
  ManifestRow row;
  const Field name = f.at("name");
  const Field dtype = f.at("dtype");
  const Field shape = f.at("shape");
  const Field sha256 = f.at("sha256");
  row.name = name.text();
  row.dtype = dtype.text();
  if (safetensors_size(row.dtype) == 0) dtype.wrong("is an unknown dtype");
  for (size_t i = 0; i < shape.size(); ++i) {
    const Field size = shape.at(i);
    row.shape.push_back(size.integer_from(0));
  }
  row.sha256 = digest_of(sha256);
  if (f.has("blocks")) {
    f.each("blocks", [&row](const Field& block) { row.blocks.push_back(digest_of(block)); });
  }
  const size_t bytes = row_bytes(row, shape);
  const size_t blocks = bytes <= block_bytes ? 0 : (bytes - 1) / block_bytes + 1;
  if (row.blocks.size() != blocks) {
    f.wrong(cat("has ", row.blocks.size(), " blocks, its bytes are ", blocks));
  }
  return row;
}

Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// Appends `"key":"value",`; nothing for an empty value.
void append(std::string* text, const char* key, const std::string& value) {
  if (!value.empty()) *text += cat('"', key, "\":", quoted(value), ',');
}

// The header up to its first entry, as the compiler writes it.
std::string metadata_text(const Container& container) {
  std::string text = R"({"__metadata__":{)";
  append(&text, "format", "aot-package");
  append(&text, "format_version", container.version());
  append(&text, "plan_sha256", container.plan_sha256());
  append(&text, "manifest_sha256", container.manifest_sha256());
  append(&text, "weights_file", container.weights_file());
  append(&text, "weights_sha256", container.weights_sha256());
  append(&text, "signatures", container.signatures());
  append(&text, "signatures_sha256", container.signatures_sha256());
  text.back() = '}';
  return text;
}

std::string weights_metadata_text(const Container& container) {
  std::string text = R"({"__metadata__":{)";
  append(&text, "format", "aot-weights");
  append(&text, "format_version", container.version());
  append(&text, "weights_sha256", container.weights_sha256());
  text.back() = '}';
  return text;
}

// The hash of a header's rows: what comes after its metadata, without the spaces at the end, of
// which there are no more than must be.
std::string hash_rows(const std::string& header, const std::string& metadata, const char* what) {
  const size_t end = header.find_last_not_of(' ') + 1;
  if (header.compare(0, metadata.size(), metadata) != 0 || end < metadata.size() ||
      header.size() - end >= kAlignment) {
    fail(AOT_CORRUPT_PACKAGE, what, " is not as it was written: its metadata differs");
  }
  return sha256_hex(
      as_bytes(std::string_view(header).substr(metadata.size(), end - metadata.size())));
}

// How the manifest begins.
std::string manifest_head(const Container& container) {
  std::string text = "{";
  append(&text, "format", container.version());
  append(&text, "plan_sha256", container.plan_sha256());
  append(&text, "rows_sha256",
         hash_rows(container.header(), metadata_text(container), "the header"));
  append(&text, "weights_file", container.weights_file());
  append(&text, "weights_sha256", container.weights_sha256());
  return text;
}

void check_beginning(const Container& container, const std::string& head, const char* what) {
  const Bytes manifest = container.find("manifest")->bytes;
  if (manifest.size < head.size() || std::memcmp(manifest.data, head.data(), head.size()) != 0) {
    fail(AOT_CORRUPT_PACKAGE, what, " is not the one that the manifest describes");
  }
}

}  // namespace

bool check_headers(const Container& container) {
  const Entry* entry = container.find("manifest");
  if (container.manifest_sha256().empty()) {
    if (container.version() == "1.0") return false;
    fail(AOT_CORRUPT_PACKAGE, "a package of format ", container.version(), " without a manifest");
  }
  if (entry == nullptr) fail(AOT_CORRUPT_PACKAGE, "the package has no manifest");
  if (sha256_hex(entry->bytes) != container.manifest_sha256()) {
    fail(AOT_CORRUPT_PACKAGE, "checksum of the manifest is not what the header says, ",
         container.manifest_sha256());
  }
  const std::string& signatures = container.signatures();
  if (!signatures.empty() && sha256_hex(as_bytes(signatures)) != container.signatures_sha256()) {
    fail(AOT_CORRUPT_PACKAGE, "checksum of the signatures is not what the header says, ",
         container.signatures_sha256());
  }
  check_beginning(container, manifest_head(container), "the header");
  return true;
}

void check_weights_header(const Container& container) {
  const std::string what = "the header of the weights";
  std::string head = manifest_head(container);
  append(&head, "weights_rows_sha256",
         hash_rows(container.weights_header(), weights_metadata_text(container), what.c_str()));
  check_beginning(container, head, what.c_str());
}

Manifest read_manifest(const Container& container) {
  const JsonPtr json = parse_json(container.find("manifest")->bytes, "manifest");
  const Field root(*json, "manifest");
  Manifest manifest;
  const Field block = root.at("block_bytes");
  manifest.block_bytes = static_cast<size_t>(block.integer_from(kLeastBlock));
  root.each("entries", [&manifest](const Field& row) {
    manifest.rows.push_back(read_row(row, manifest.block_bytes));
  });
  return manifest;
}

}  // namespace aot_rt
