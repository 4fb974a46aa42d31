#include "verify/declaration.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "error.h"
#include "json_text.h"
#include "plan_fields.h"

namespace aot_rt {
namespace {

constexpr std::string_view kMark = "AOTDECL1";
constexpr size_t kTrailer = sizeof(uint64_t) + kMark.size();
constexpr uint64_t kMaxText = uint64_t{64} << 20;
constexpr size_t kMaxDims = 256;        // variables of one kernel
constexpr size_t kMaxArguments = 4096;  // sizes, buffers or relations of one kernel

// The list that is the member `key`, which is not too long.
Field list_of(const Field& field, const char* key, size_t most) {
  Field list = field.at(key);
  if (list.size() > most) list.wrong(cat("has ", list.size(), " items, at most ", most));
  return list;
}

class Parser {
 public:
  Declaration parse(const Field& f, bool library) {
    const Field name = f.at("name");
    result_.name = name.text();
    dims(f);
    exprs(f, "sizes", &result_.sizes);
    buffers(f);
    relations(f);
    result_.scratch = expr(f, "scratch");
    if (library) {
      result_.work = expr(f, "work");
    } else {
      device_code(f);
    }
    return std::move(result_);
  }

 private:
  void dims(const Field& f) {
    const Field list = list_of(f, "dims", kMaxDims);
    for (size_t i = 0; i < list.size(); ++i) {
      const Field item = list.at(i);
      DeclaredDim dim;
      const Field least = item.at("min");
      const Field multiple = item.at("multiple_of");
      dim.range.min = least.integer();
      if (item.has("max")) {
        const Field most = item.at("max");
        dim.range.max = most.integer_from(dim.range.min);
      }
      dim.multiple_of = multiple.integer_from(1);
      result_.dims.push_back(dim);
      names_.push_back(cat("v", i));
    }
  }

  Expr expr(const Field& f, const char* key) const {
    const Field field = f.at(key);
    return Expr::parse(field, names_);
  }

  void exprs(const Field& f, const char* key, std::vector<Expr>* out) const {
    const Field list = list_of(f, key, kMaxArguments);
    *out = parse_exprs(list, names_);
  }

  void buffers(const Field& f) {
    const Field list = list_of(f, "buffers", kMaxArguments);
    for (size_t i = 0; i < list.size(); ++i) {
      const Field item = list.at(i);
      const Field dtype = item.at("dtype");
      const Field access = item.at("access");
      const bool reads = access.text() == "read";
      if (!reads && access.text() != "write" && access.text() != "update") {
        access.wrong(cat("is '", access.text(), "', must be read, write or update"));
      }
      result_.buffers.push_back({parse_dtype(dtype), expr(item, "bytes"), !reads});
    }
  }

  void relations(const Field& f) {
    const Field list = list_of(f, "relations", kMaxArguments);
    for (size_t i = 0; i < list.size(); ++i) {
      const Field item = list.at(i);
      if (item.size() != 3) item.wrong("must be [left, relation, right]");
      const Field left = item.at(size_t{0});
      const Field relation = item.at(size_t{1});
      const Field right = item.at(size_t{2});
      result_.relations.push_back(
          {Expr::parse(left, names_), parse_relation(relation), Expr::parse(right, names_)});
    }
  }

  void device_code(const Field& f) {
    const Field grid = f.at("grid");
    const Field threads = f.at("threads");
    const Field shared = f.at("shared");
    const Field alignment = f.at("scratch_alignment");
    const Field faults = f.at("faults");
    const Field waits = f.at("waits");
    if (grid.size() != result_.grid.size()) grid.wrong("must be three numbers");
    for (size_t i = 0; i < result_.grid.size(); ++i) {
      const Field item = grid.at(i);
      result_.grid[i] = Expr::parse(item, names_);
    }
    if (threads.integer_from(1) > kMaxThreads) threads.wrong(cat("is above ", kMaxThreads));
    result_.threads = static_cast<int32_t>(threads.integer());
    result_.shared = shared.integer_from(0);
    result_.scratch_alignment = alignment.integer_from(1);
    result_.faults = faults.boolean();
    result_.waits = waits.boolean();
  }

  Declaration result_;
  std::vector<std::string> names_;
};

}  // namespace

std::optional<Bytes> declarations_in(const Entry& entry) {
  const Bytes all = entry.bytes;
  if (all.size < kTrailer) return {};
  const uint8_t* end = all.data + all.size;
  if (std::memcmp(end - kMark.size(), kMark.data(), kMark.size()) != 0) return {};
  uint64_t size = 0;
  for (size_t i = 0; i < sizeof(size); ++i) {
    size |= uint64_t{(end - kTrailer)[i]} << (8 * i);
  }
  if (size > all.size - kTrailer || size > kMaxText) {
    fail(AOT_CORRUPT_PACKAGE, "declarations of '", entry.name, "' are said to have ", size,
         " bytes, the entry has ", all.size);
  }
  return Bytes{end - kTrailer - size, static_cast<size_t>(size)};
}

void check_declarations(const Entry& copy, const std::string* proved) {
  const std::optional<Bytes> text = declarations_in(copy);
  const bool same =
      text.has_value() == (proved != nullptr) &&
      (!text || *proved == std::string_view(reinterpret_cast<const char*>(text->data), text->size));
  if (same) return;
  fail(AOT_CORRUPT_PACKAGE, "'", copy.name, "' declares something else than when the package was ",
       "opened: the file was changed in place while it was open");
}

std::vector<Declaration> parse_declarations(Bytes text, const Entry& entry, bool library) {
  const std::string what = cat("declarations of '", entry.name, "'");
  const JsonPtr json = parse_json(text, what.c_str());
  const Field root(*json, what.c_str());
  std::vector<Declaration> result;
  root.each("kernels", [&](const Field& item) { result.push_back(Parser().parse(item, library)); });
  return result;
}

Bytes code_of(const Entry& entry) {
  const std::optional<Bytes> text = declarations_in(entry);
  if (!text) return entry.bytes;
  return {entry.bytes.data, static_cast<size_t>(text->data - entry.bytes.data)};
}

}  // namespace aot_rt
