#include "plan.h"

#include <nlohmann/json.hpp>

#include "error.h"
#include "json_text.h"
#include "sha256.h"

namespace aot_rt {
namespace {

constexpr int64_t kFormatMajor = 1;
constexpr size_t kMaxRank = 64;

std::vector<Expr> parse_exprs(const Field& list, const std::vector<std::string>& dims) {
  std::vector<Expr> result;
  result.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Field item = list.at(i);
    result.push_back(Expr::parse(item, dims));
  }
  return result;
}

const DType* parse_dtype(const Field& field) {
  const DType* dtype = find_dtype(field.text());
  if (dtype == nullptr) {
    fail(AOT_UNSUPPORTED, field.path(), " is '", field.text(),
         "', an element type that this runtime does not know; update the runtime");
  }
  return dtype;
}

const Entry* parse_entry(const Field& field, const Container& container) {
  const Entry* entry = container.find(field.text());
  if (entry == nullptr) field.wrong(cat("names an entry '", field.text(), "' that is not there"));
  return entry;
}

// Parses the parts of one plan; holds what they refer to.
class Parser {
 public:
  Parser(const Field& root, const Container& container) : root_(root), container_(container) {}

  Plan parse() {
    check_format();
    text("compiler", &plan_.compiler);
    text("model", &plan_.model);
    each("dims", [this](const Field& f) { names(f); });
    each("inputs", [this](const Field& f) { plan_.inputs.push_back(tensor(f)); });
    each("dims", [this](const Field& f) { plan_.dims.push_back(dim(f)); });
    each("outputs", [this](const Field& f) { plan_.outputs.push_back(tensor(f)); });
    each("buffers", [this](const Field& f) { plan_.buffers.push_back(buffer(f)); });
    arena_position_.assign(plan_.buffers.size(), -1);
    each("arena", [this](const Field& f) { plan_.arena.push_back(arena_slot(f)); });
    each("libraries", [this](const Field& f) { plan_.libraries.push_back(library(f)); });
    each("kernels", [this](const Field& f) {
      const Field name = f.at("name");
      plan_.kernels.push_back(name.text());
    });
    each("origins", [this](const Field& f) { plan_.origins.push_back(origin(f)); });
    each("steps", [this](const Field& f) { plan_.steps.push_back(step(f)); });
    each("checks", [this](const Field& f) { plan_.checks.push_back(check(f)); });
    const Field entries = root_.at("entries");
    for (const auto& [name, digest] : entries.object().items()) {
      const Field value(digest, name.c_str());
      plan_.checksums.emplace_back(name, value.text());
    }
    return std::move(plan_);
  }

 private:
  template <typename Action>
  void each(const char* key, Action action) {
    const Field list = root_.at(key);
    for (size_t i = 0; i < list.size(); ++i) {
      const Field item = list.at(i);
      action(item);
    }
  }

  void text(const char* key, std::string* out) {
    const Field field = root_.at(key);
    *out = field.text();
  }

  void check_format() {
    const Field format = root_.at("format");
    if (format.size() != 2) format.wrong("must be [major, minor]");
    const Field major = format.at(size_t{0});
    if (major.integer() != kFormatMajor) {
      fail(AOT_INCOMPATIBLE, "plan format ", major.integer(), ": this runtime reads version ",
           kFormatMajor);
    }
  }

  void names(const Field& f) {
    const Field name = f.at("name");
    for (const std::string& other : plan_.dim_names) {
      if (other == name.text()) name.wrong(cat("is '", other, "', as another dim"));
    }
    plan_.dim_names.push_back(name.text());
  }

  Dim dim(const Field& f) {
    Dim result;
    const Field label = f.at("label");
    const Field least = f.at("min");
    const Field multiple = f.at("multiple_of");
    result.name = plan_.dim_names[plan_.dims.size()];
    result.label = label.text().empty() ? result.name : label.text();
    result.range.min = least.integer_from(0);
    if (f.has("max")) {
      const Field most = f.at("max");
      result.range.max = most.integer_from(result.range.min);
    }
    result.multiple_of = multiple.integer_from(1);
    const Field source = f.at("source");
    const Field input = source.at("input");
    const Field axis = source.at("axis");
    const Field divisor = source.at("divisor");
    const Field offset = source.at("offset");
    result.input = input.id(plan_.inputs.size());
    result.axis = axis.id(plan_.inputs[static_cast<size_t>(result.input)].shape.size());
    result.divisor = divisor.integer_from(1);
    result.offset = offset.integer();
    return result;
  }

  TensorSpec tensor(const Field& f) {
    TensorSpec result;
    const Field name = f.at("name");
    const Field dtype = f.at("dtype");
    const Field shape = f.at("shape");
    const Field strides = f.at("strides");
    const Field buffers = root_.at("buffers");
    const Field buffer = f.at("buffer");
    result.name = name.text();
    result.dtype = parse_dtype(dtype);
    if (shape.size() > kMaxRank) shape.wrong("has too many dimensions");
    if (strides.size() != shape.size()) strides.wrong("must be as long as the shape");
    result.shape = parse_exprs(shape, plan_.dim_names);
    result.strides = parse_exprs(strides, plan_.dim_names);
    result.buffer = buffer.id(buffers.size());
    return result;
  }

  Buffer buffer(const Field& f) {
    Buffer result;
    const Field name = f.at("name");
    const Field dtype = f.at("dtype");
    const Field bytes = f.at("bytes");
    const Field storage = f.at("storage");
    const Field kind = storage.at("kind");
    result.name = name.text();
    result.dtype = parse_dtype(dtype);
    result.bytes = Expr::parse(bytes, plan_.dim_names);
    if (kind.text() == "input") {
      const Field index = storage.at("index");
      result.storage = Storage::kInput;
      result.index = index.id(plan_.inputs.size());
    } else if (kind.text() == "output") {
      const Field index = storage.at("index");
      result.storage = Storage::kOutput;
      result.index = index.id(plan_.outputs.size());
    } else if (kind.text() == "entry") {
      const Field entry = storage.at("entry");
      const Field offset = storage.at("offset");
      result.storage = Storage::kEntry;
      result.entry = parse_entry(entry, container_);
      result.offset = offset.integer_from(0);
    } else if (kind.text() == "arena") {
      result.storage = Storage::kArena;
    } else {
      fail(AOT_UNSUPPORTED, kind.path(), " is '", kind.text(),
           "', which this runtime does not know; update the runtime");
    }
    return result;
  }

  ArenaSlot arena_slot(const Field& f) {
    ArenaSlot result;
    const Field buffer = f.at("buffer");
    const Field above = f.at("above");
    result.buffer = buffer.id(plan_.buffers.size());
    int32_t& position = arena_position_[static_cast<size_t>(result.buffer)];
    if (position >= 0) buffer.wrong("is placed twice");
    for (size_t i = 0; i < above.size(); ++i) {
      const Field item = above.at(i);
      const int32_t below = arena_position_[static_cast<size_t>(item.id(plan_.buffers.size()))];
      if (below < 0) item.wrong("is not placed before");
      result.above.push_back(below);
    }
    position = static_cast<int32_t>(plan_.arena.size());
    return result;
  }

  Library library(const Field& f) {
    Library result;
    const Field entry = f.at("entry");
    const Field device = f.at("device");
    const Field isa = f.at("isa");
    const Field sha256 = f.at("sha256");
    result.entry = parse_entry(entry, container_);
    result.device = device.text();
    result.isa = isa.text();
    result.sha256 = sha256.text();
    return result;
  }

  static std::string origin(const Field& f) {
    const Field file = f.at("file");
    const Field line = f.at("line");
    const Field op = f.at("operator");
    const int64_t number = line.is_null() ? 0 : line.integer();
    std::string result = file.is_null() ? std::string() : file.text();
    if (number > 0) result += cat(":", number);
    if (!result.empty()) result += ' ';
    return result + op.text();
  }

  Step step(const Field& f) {
    Step result;
    const Field kernel = f.at("kernel");
    const Field buffers = f.at("buffers");
    const Field sizes = f.at("sizes");
    const Field work = f.at("work");
    const Field grain = f.at("grain");
    const Field scratch = f.at("scratch");
    result.kernel = kernel.id(plan_.kernels.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Field item = buffers.at(i);
      result.buffers.push_back(item.id(plan_.buffers.size()));
    }
    result.sizes = parse_exprs(sizes, plan_.dim_names);
    result.work = Expr::parse(work, plan_.dim_names);
    result.grain = grain.integer_from(1);
    result.scratch = Expr::parse(scratch, plan_.dim_names);
    if (f.has("origin")) {
      const Field origin = f.at("origin");
      result.origin = origin.id(plan_.origins.size());
    }
    return result;
  }

  Check check(const Field& f) {
    Check result;
    const Field left = f.at("left");
    const Field relation = f.at("relation");
    const Field right = f.at("right");
    const Field message = f.at("message");
    result.left = Expr::parse(left, plan_.dim_names);
    result.right = Expr::parse(right, plan_.dim_names);
    result.message = message.text();
    if (relation.text() == "==") {
      result.relation = Relation::kEqual;
    } else if (relation.text() == "<=") {
      result.relation = Relation::kLessEqual;
    } else if (relation.text() == "<") {
      result.relation = Relation::kLess;
    } else {
      relation.wrong(cat("is '", relation.text(), "', must be ==, <= or <"));
    }
    return result;
  }

  const Field& root_;
  const Container& container_;
  Plan plan_;
  std::vector<int32_t> arena_position_;  // by buffer; -1: not placed yet
};

void check_tensors(const Plan& plan) {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const Buffer& buffer = plan.buffers[static_cast<size_t>(plan.inputs[i].buffer)];
    if (buffer.storage != Storage::kInput || static_cast<size_t>(buffer.index) != i) {
      fail(AOT_CORRUPT_PACKAGE, "plan.inputs[", i, "].buffer is not the storage of that input");
    }
    if (buffer.dtype != plan.inputs[i].dtype) {
      fail(AOT_CORRUPT_PACKAGE, "plan.inputs[", i, "].dtype differs from its buffer's");
    }
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Buffer& buffer = plan.buffers[static_cast<size_t>(plan.outputs[i].buffer)];
    if (buffer.dtype != plan.outputs[i].dtype) {
      fail(AOT_CORRUPT_PACKAGE, "plan.outputs[", i, "].dtype differs from its buffer's");
    }
  }
}

void check_buffers(const Plan& plan) {
  std::vector<bool> placed(plan.buffers.size(), false);
  for (const ArenaSlot& slot : plan.arena) placed[static_cast<size_t>(slot.buffer)] = true;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (placed[i] != (buffer.storage == Storage::kArena)) {
      fail(AOT_CORRUPT_PACKAGE, "plan.buffers[", i, "] ('", buffer.name, "') is ",
           placed[i] ? "placed in the arena, but is stored elsewhere"
                     : "stored in the arena, but has no place there");
    }
    if (buffer.storage == Storage::kOutput &&
        static_cast<size_t>(plan.outputs[static_cast<size_t>(buffer.index)].buffer) != i) {
      fail(AOT_CORRUPT_PACKAGE, "plan.buffers[", i, "] is not the buffer of its output");
    }
    if (buffer.storage == Storage::kInput &&
        static_cast<size_t>(plan.inputs[static_cast<size_t>(buffer.index)].buffer) != i) {
      fail(AOT_CORRUPT_PACKAGE, "plan.buffers[", i, "] is not the buffer of its input");
    }
    if (buffer.storage == Storage::kEntry) {
      const auto size = static_cast<uint64_t>(buffer.entry->bytes.size);
      const auto offset = static_cast<uint64_t>(buffer.offset);
      const int64_t bytes = buffer.bytes.is_constant() ? buffer.bytes.constant() : 0;
      if (bytes < 0 || offset > size || static_cast<uint64_t>(bytes) > size - offset) {
        fail(AOT_CORRUPT_PACKAGE, "plan.buffers[", i, "] ('", buffer.name,
             "') reaches beyond its entry '", buffer.entry->name, "'");
      }
      if (buffer.offset % buffer.dtype->size != 0) {
        fail(AOT_CORRUPT_PACKAGE, "plan.buffers[", i, "] ('", buffer.name,
             "') does not begin at a multiple of its element size");
      }
    }
  }
}

}  // namespace

Plan Plan::parse(const Container& container) {
  const Entry* entry = container.find("plan");
  if (entry == nullptr) fail(AOT_CORRUPT_PACKAGE, "the package has no plan");
  const std::string& expected = container.plan_sha256();
  if (!expected.empty() && sha256_hex(entry->bytes) != expected) {
    fail(AOT_CORRUPT_PACKAGE, "checksum of the plan is not what the header says, ", expected);
  }
  const nlohmann::json json = parse_json(entry->bytes, "plan");
  const Field root(json, "plan");
  Plan plan = Parser(root, container).parse();
  check_plan(plan);
  return plan;
}

void check_plan(const Plan& plan) {
  check_tensors(plan);
  check_buffers(plan);
}

}  // namespace aot_rt
