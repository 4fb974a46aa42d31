#include "safetensors.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "dtype.h"
#include "error.h"
#include "json_text.h"

namespace aot_rt {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr uint64_t kAlignment = 64;
constexpr int64_t kFormatMajor = 1;

template <typename... Args>
[[noreturn]] void corrupt(const Args&... args) {
  fail(AOT_CORRUPT_PACKAGE, args...);
}

uint64_t header_size(Bytes file, const char* what) {
  if (file.size == 0) corrupt("not ", what, ": the file is empty");
  if (file.size < 8) corrupt("not ", what, ": only ", file.size, " bytes");
  uint64_t size = 0;
  for (int i = 7; i >= 0; --i) size = size << 8 | file.data[i];
  if (size > kMaxHeader) {
    corrupt("not ", what, ": header of ", size, " bytes, at most ", kMaxHeader, " allowed");
  }
  if (size > file.size - 8) {
    corrupt("truncated: header of ", size, " bytes, but the file has ", file.size);
  }
  return size;
}

// Kernels read entries where they are.
void check_alignment(uint64_t header_size, const std::vector<Entry>& entries, const uint8_t* data) {
  if ((header_size + 8) % kAlignment != 0) {
    corrupt("misaligned: data begins at byte ", header_size + 8, ", not at a multiple of ",
            kAlignment);
  }
  for (const Entry& entry : entries) {
    const auto begin = static_cast<uint64_t>(entry.bytes.data - data);
    const bool filler = entry.name.compare(0, 4, "pad/") == 0;  // begins where the one before ends
    if (begin % kAlignment != 0 && !filler) {
      corrupt("misaligned: entry '", entry.name, "' begins at data byte ", begin,
              ", not at a multiple of ", kAlignment);
    }
  }
}

// `format` is that of `what`, for messages.
void check_metadata(const Field& header, const char* format, const char* what) {
  if (!header.has("__metadata__")) corrupt("a safetensors file, but not ", what);
  const Field metadata = header.at("__metadata__");
  if (!metadata.has("format")) corrupt("a safetensors file, but not ", what);
  const Field said = metadata.at("format");
  if (said.text() != format) {
    corrupt("a safetensors file of format '", said.text(), "', not ", what);
  }
  const Field version_field = metadata.at("format_version");
  const std::string& version = version_field.text();
  char* end = nullptr;
  const long long major = std::strtoll(version.c_str(), &end, 10);
  if (end == version.c_str() || *end != '.') version_field.wrong("is not 'major.minor'");
  if (major != kFormatMajor) {
    fail(AOT_INCOMPATIBLE, "package format ", version, ": this runtime reads version ",
         kFormatMajor, ".x; ", major > kFormatMajor ? "update the runtime" : "package it again");
  }
}

// The text of a key of the metadata; "" without it.
std::string metadata_text(const Field& header, const char* key) {
  const Field metadata = header.at("__metadata__");
  if (!metadata.has(key)) return {};
  const Field value = metadata.at(key);
  return value.text();
}

// The name of a file in a folder that is known: it leads to no other folder.
std::string plain_name(std::string name) {
  if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "." ||
      name == "..") {
    corrupt("the weights are said to be in '", name, "', which is no plain file name");
  }
  return name;
}

// Bytes of a tensor; throws when the product overflows.
uint64_t tensor_bytes(const Field& shape, int32_t element) {
  uint64_t bytes = static_cast<uint64_t>(element);
  for (size_t i = 0; i < shape.size(); ++i) {
    const Field size = shape.at(i);
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size.integer_from(0)), &bytes)) {
      shape.wrong("is too large");
    }
  }
  return bytes;
}

Entry read_entry(const std::string& name, const Field& row, Bytes data) {
  Entry entry;
  entry.name = name;
  const Field dtype = row.at("dtype");
  entry.dtype = dtype.text();
  const int32_t element = safetensors_size(entry.dtype);
  if (element == 0) dtype.wrong(cat("is '", entry.dtype, "', an unknown dtype"));
  const Field shape = row.at("shape");
  const uint64_t expected = tensor_bytes(shape, element);
  for (size_t i = 0; i < shape.size(); ++i) {
    const Field size = shape.at(i);
    entry.shape.push_back(size.integer());
  }
  const Field offsets = row.at("data_offsets");
  if (offsets.size() != 2) offsets.wrong("must have two elements");
  const Field first = offsets.at(size_t{0});
  const Field last = offsets.at(size_t{1});
  const auto begin = static_cast<uint64_t>(first.integer_from(0));
  const auto end = static_cast<uint64_t>(last.integer_from(0));
  if (end < begin) offsets.wrong("ends before it begins");
  if (end > data.size) {
    corrupt("truncated: entry '", name, "' ends at data byte ", end, ", but the file has ",
            data.size);
  }
  if (end - begin != expected) {
    corrupt("entry '", name, "' has ", end - begin, " bytes, but its shape needs ", expected);
  }
  entry.bytes = Bytes{data.data + begin, static_cast<size_t>(end - begin)};
  return entry;
}

// The entries, laid end to end, must be the data section.
void check_coverage(const std::vector<Entry>& entries, Bytes data) {
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return a->bytes.data != b->bytes.data ? a->bytes.data < b->bytes.data
                                          : a->bytes.size < b->bytes.size;
  });
  const uint8_t* position = data.data;
  for (const Entry* entry : order) {
    if (entry->bytes.data < position) corrupt("entry '", entry->name, "' overlaps another entry");
    if (entry->bytes.data > position) corrupt("hole in the data before entry '", entry->name, "'");
    position += entry->bytes.size;
  }
  if (position != data.data + data.size) {
    corrupt("oversized: ", data.data + data.size - position, " bytes after the last entry");
  }
}

}  // namespace

Container Container::read(Bytes file) { return read_as(Kind::kPackage, file); }

Container Container::read_weights(Bytes file) { return read_as(Kind::kWeights, file); }

Container Container::read_tensors(Bytes file) { return read_as(Kind::kTensors, file); }

Container Container::read_as(Kind kind, Bytes file) {
  const bool own = kind != Kind::kTensors;
  const bool package = kind == Kind::kPackage;
  const char* what = package ? "an aot package" : "the weights of an aot package";
  const uint64_t size = header_size(file, own ? what : "a safetensors file");
  Container container;
  std::string& text = container.header_;
  text.assign(reinterpret_cast<const char*>(file.data) + 8, static_cast<size_t>(size));
  if (text.empty() || text[0] != '{')
    corrupt("not ", own ? what : "a safetensors file", ": no header");
  const JsonPtr json =
      parse_json(Bytes{reinterpret_cast<const uint8_t*>(text.data()), text.size()}, "header");
  const Field header(*json, "header");
  const Bytes data{file.data + 8 + size, file.size - 8 - static_cast<size_t>(size)};
  if (own) {
    check_metadata(header, package ? "aot-package" : "aot-weights", what);
    container.version_ = metadata_text(header, "format_version");
    container.plan_sha256_ = metadata_text(header, "plan_sha256");
    container.manifest_sha256_ = metadata_text(header, "manifest_sha256");
    container.signatures_ = metadata_text(header, "signatures");
    container.signatures_sha256_ = metadata_text(header, "signatures_sha256");
    container.weights_file_ = plain_name(metadata_text(header, "weights_file"));
    container.weights_sha256_ = metadata_text(header, "weights_sha256");
  }
  for (const auto& [name, value] : header.object().items()) {
    if (name == "__metadata__") continue;
    const std::string path = cat("header['", name, "']");
    const Field row(value, path.c_str());
    container.entries_.push_back(read_entry(name, row, data));
  }
  if (own) check_alignment(size, container.entries_, data.data);
  check_coverage(container.entries_, data);
  return container;  // nlohmann::json keeps members sorted by name
}

void Container::add(Container weights) {
  if (weights.weights_sha256_ != weights_sha256_) {
    corrupt("these are the weights of another package");
  }
  for (Entry& entry : weights.entries_) {
    if (find(entry.name) != nullptr) corrupt("entry '", entry.name, "' is in the package too");
  }
  weights_header_ = std::move(weights.header_);
  std::move(weights.entries_.begin(), weights.entries_.end(), std::back_inserter(entries_));
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
}

void Container::forget_headers() {
  header_ = {};
  weights_header_ = {};
}

void Container::own(std::string_view name) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [name](const Entry& each) { return each.name == name; });
  if (entry == entries_.end()) return;
  owned_.push_back(std::make_shared<const std::string>(
      reinterpret_cast<const char*>(entry->bytes.data), entry->bytes.size));
  entry->bytes.data = reinterpret_cast<const uint8_t*>(owned_.back()->data());
}

const Entry* Container::find(std::string_view name) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, std::string_view key) { return entry.name < key; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

}  // namespace aot_rt
