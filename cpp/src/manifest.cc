#include "manifest.h"

#include <nlohmann/json.hpp>
#include <utility>

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

ManifestFile read_file(const Field& f, size_t block_bytes) {
  ManifestFile file;
  const Field version = f.at("format");
  file.version = version.text();
  f.each("entries", [&](const Field& row) { file.rows.push_back(read_row(row, block_bytes)); });
  return file;
}

Manifest parse(Bytes text) {
  const nlohmann::json json = parse_json(text, "manifest");
  const Field root(json, "manifest");
  Manifest manifest;
  const Field block = root.at("block_bytes");
  manifest.block_bytes = static_cast<size_t>(block.integer_from(kLeastBlock));
  manifest.package = read_file(root, manifest.block_bytes);
  if (manifest.package.rows.empty() || manifest.package.rows[0].name != "plan") {
    root.wrong("does not begin with the plan");
  }
  if (!root.has("weights")) return manifest;
  const Field weights = root.at("weights");
  const Field name = weights.at("file");
  const Field sha256 = weights.at("sha256");
  manifest.weights_file = name.text();
  manifest.weights_sha256 = sha256.text();
  manifest.weights = read_file(weights, manifest.block_bytes);
  return manifest;
}

// Writes a header as the compiler does, whose text is then the only one that is right.
class HeaderText {
 public:
  explicit HeaderText(const char* pad) : pad_(pad) {}

  void metadata(const char* key, const std::string& value) {
    text_ += text_.empty() ? R"({"__metadata__":{)" : ",";
    quoted(key);
    text_ += ':';
    quoted(value);
  }
  void end_metadata() { text_ += '}'; }

  void row(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape) {
    if (const size_t gap = (kAlignment - offset_ % kAlignment) % kAlignment; gap != 0) {
      place(cat(pad_, pads_++), "U8", {static_cast<int64_t>(gap)});
    }
    place(name, dtype, shape);
  }

  std::string finish() {
    text_ += '}';
    while ((8 + text_.size()) % kAlignment != 0) text_ += ' ';
    return std::move(text_);
  }

 private:
  void quoted(const std::string& value) { text_ += nlohmann::json(value).dump(); }

  void place(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape) {
    size_t bytes = static_cast<size_t>(safetensors_size(dtype));
    text_ += ',';
    quoted(name);
    text_ += R"(:{"dtype":")" + dtype + R"(","shape":[)";
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i != 0) text_ += ',';
      text_ += std::to_string(shape[i]);
      bytes *= static_cast<size_t>(shape[i]);
    }
    text_ += R"(],"data_offsets":[)" + std::to_string(offset_) + ',';
    offset_ += bytes;
    text_ += std::to_string(offset_) + "]}";
  }

  const char* pad_;
  std::string text_;
  size_t offset_ = 0;
  size_t pads_ = 0;
};

void rows_of(const ManifestFile& file, HeaderText* text) {
  for (const ManifestRow& row : file.rows) text->row(row.name, row.dtype, row.shape);
}

std::string package_header(const Container& container, const Manifest& manifest) {
  HeaderText text("pad/");
  text.metadata("format", "aot-package");
  text.metadata("format_version", manifest.package.version);
  text.metadata("plan_sha256", manifest.package.rows[0].sha256);
  text.metadata("manifest_sha256", container.manifest_sha256());
  if (!manifest.weights_file.empty()) {
    text.metadata("weights_file", manifest.weights_file);
    text.metadata("weights_sha256", manifest.weights_sha256);
  }
  if (!container.signatures().empty()) {
    text.metadata("signatures", container.signatures());
    text.metadata("signatures_sha256", container.signatures_sha256());
  }
  text.end_metadata();
  const ManifestRow& plan = manifest.package.rows[0];
  text.row(plan.name, plan.dtype, plan.shape);
  const auto size = static_cast<int64_t>(container.find("manifest")->bytes.size);
  text.row("manifest", "U8", {size});
  for (size_t i = 1; i < manifest.package.rows.size(); ++i) {
    const ManifestRow& row = manifest.package.rows[i];
    text.row(row.name, row.dtype, row.shape);
  }
  return text.finish();
}

Bytes as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Where the texts part.
void compare(const std::string& found, const std::string& wanted, const char* what) {
  if (found == wanted) return;
  size_t at = 0;
  while (at < found.size() && at < wanted.size() && found[at] == wanted[at]) ++at;
  fail(AOT_CORRUPT_PACKAGE, what, " is not the one that its manifest describes: they part at byte ",
       at, " of it");
}

}  // namespace

std::shared_ptr<const Manifest> read_manifest(const Container& container) {
  const Entry* entry = container.find("manifest");
  if (container.manifest_sha256().empty()) {
    if (container.version() == "1.0") return nullptr;
    fail(AOT_CORRUPT_PACKAGE, "a package of format ", container.version(), " without a manifest");
  }
  if (entry == nullptr) fail(AOT_CORRUPT_PACKAGE, "the package has no manifest");
  if (sha256_hex(entry->bytes) != container.manifest_sha256()) {
    fail(AOT_CORRUPT_PACKAGE, "checksum of the manifest is not what the header says, ",
         container.manifest_sha256());
  }
  auto manifest = std::make_shared<const Manifest>(parse(entry->bytes));
  const std::string& signatures = container.signatures();
  if (!signatures.empty() && sha256_hex(as_bytes(signatures)) != container.signatures_sha256()) {
    fail(AOT_CORRUPT_PACKAGE, "checksum of the signatures is not what the header says, ",
         container.signatures_sha256());
  }
  compare(container.header(), package_header(container, *manifest), "the header");
  return manifest;
}

void check_weights_header(const Container& container, const Manifest& manifest) {
  HeaderText text("pad/weights/");
  text.metadata("format", "aot-weights");
  text.metadata("format_version", manifest.weights.version);
  text.metadata("weights_sha256", manifest.weights_sha256);
  text.end_metadata();
  rows_of(manifest.weights, &text);
  compare(container.weights_header(), text.finish(), "the header of the weights");
}

}  // namespace aot_rt
