#include "plan.h"

#include <nlohmann/json.hpp>
#include <set>

#include "error.h"
#include "json_text.h"
#include "plan_fields.h"
#include "program.h"
#include "sha256.h"
#include "verify/verify.h"

namespace aot_rt {
namespace {

constexpr int64_t kFormatMajor = 1;
constexpr int64_t kStateAlignment = 256;
constexpr size_t kMaxDims = 1024;

// Of steps that have none of their own, by kind. Made when the library is loaded: see process.cc.
const std::string kStepNames[] = {"", "branch", "while", "repeat", "copy", "sizes", "check"};

// Parses the parts of one plan; holds what they refer to.
class Parser {
 public:
  Parser(const Field& root, const Container& container) : root_(root), container_(container) {}

  Plan parse() {
    check_format();
    text("compiler", &plan_.compiler);
    text("model", &plan_.model);
    const Field dims = root_.at("dims");
    if (dims.size() > kMaxDims) dims.wrong(cat("are ", dims.size(), ", at most ", kMaxDims));
    root_.each("dims", [this](const Field& f) { names(f); });
    root_.each("inputs", [this](const Field& f) { plan_.inputs.push_back(tensor(f)); });
    root_.each("dims", [this](const Field& f) { plan_.dims.push_back(dim(f)); });
    check_inputs();
    root_.each("outputs", [this](const Field& f) { plan_.outputs.push_back(tensor(f)); });
    if (root_.has("states")) {
      root_.each("states", [this](const Field& f) { plan_.states.push_back(state(f)); });
    }
    root_.each("checks", [this](const Field& f) { plan_.checks.push_back(check(f)); });
    root_.each("origins", [this](const Field& f) { plan_.origins.push_back(origin(f)); });
    if (root_.has("weights")) {
      root_.each("weights", [this](const Field& f) { plan_.weights.push_back(weight(f)); });
    }
    root_.each("programs", [this](const Field& f) { plan_.programs.push_back(program(f)); });
    const Field entries = root_.at("entries");
    for (const auto& [name, digest] : entries.object().items()) {
      const Field value(digest, name.c_str());
      plan_.checksums.emplace_back(name, value.text());
    }
    return std::move(plan_);
  }

 private:
  void text(const char* key, std::string* out) {
    const Field field = root_.at(key);
    *out = field.text();
  }

  void check_format() {
    const Field format = root_.at("format");
    if (format.size() != 2) format.wrong("must be [major, minor]");
    const Field major = format.at(size_t{0});
    const Field minor = format.at(size_t{1});
    if (major.integer() != kFormatMajor) {
      fail(AOT_INCOMPATIBLE, "plan format ", major.integer(), ": this runtime reads version ",
           kFormatMajor);
    }
    plan_.minor = minor.integer_from(0);
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
    if (source.is_null()) {
      result.input = -1;
      return result;
    }
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

  // Sizes of inputs are known before anything runs.
  void check_inputs() const {
    for (const TensorSpec& spec : plan_.inputs) {
      const auto check = [this, &spec](int32_t dim) {
        if (plan_.dims[static_cast<size_t>(dim)].measured()) {
          fail(AOT_CORRUPT_PACKAGE, "plan.inputs: '", spec.name, "' has the measured dim '",
               plan_.dim_names[static_cast<size_t>(dim)], "'");
        }
      };
      for (const Expr& size : spec.shape) size.each_dim(check);
      for (const Expr& stride : spec.strides) stride.each_dim(check);
    }
  }

  TensorSpec tensor(const Field& f) { return parse_tensor(f, plan_.dim_names); }

  // A shape without dynamic sizes.
  static std::vector<int64_t> known_shape(const Field& shape) {
    if (shape.size() > kMaxRank) shape.wrong("has too many dimensions");
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < shape.size(); ++i) {
      const Field size = shape.at(i);
      sizes.push_back(size.integer_from(0));
    }
    return sizes;
  }

  static int64_t bytes_of(const std::vector<int64_t>& sizes, const DType& dtype,
                          const Field& shape) {
    int64_t bytes = dtype.size;
    for (const int64_t size : sizes) {
      if (__builtin_mul_overflow(bytes, size, &bytes)) shape.wrong("is too large");
    }
    return bytes;
  }

  State state(const Field& f) {
    State result;
    const Field name = f.at("name");
    const Field dtype = f.at("dtype");
    const Field shape = f.at("shape");
    const Field entry = f.at("entry");
    result.spec.name = name.text();
    if (!state_names_.insert(result.spec.name).second) name.wrong("is that of another state");
    result.spec.dtype = parse_dtype(dtype);
    result.bytes = bytes_of(known_shape(shape), *result.spec.dtype, shape);
    result.spec.shape = parse_exprs(shape, plan_.dim_names);
    if (!entry.is_null()) {
      result.entry = parse_entry(entry, container_);
      if (result.entry->bytes.size != static_cast<size_t>(result.bytes)) {
        entry.wrong(cat("holds ", result.entry->bytes.size, " bytes, the state ", result.bytes));
      }
    }
    result.offset = plan_.state_bytes;
    int64_t end = 0;
    if (__builtin_add_overflow(result.offset, result.bytes, &end) ||
        __builtin_add_overflow(end, kStateAlignment - 1, &end)) {
      shape.wrong("is too large");
    }
    plan_.state_bytes = end / kStateAlignment * kStateAlignment;
    return result;
  }

  WeightSpec weight(const Field& f) {
    WeightSpec result;
    const Field name = f.at("name");
    const Field dtype = f.at("dtype");
    const Field shape = f.at("shape");
    const Field entry = f.at("entry");
    const Field required = f.at("required");
    result.name = name.text();
    result.dtype = parse_dtype(dtype);
    result.required = required.boolean();
    result.shape = known_shape(shape);
    result.bytes = bytes_of(result.shape, *result.dtype, shape);
    f.each("aliases", [&result](const Field& alias) { result.aliases.push_back(alias.text()); });
    if (!entry.text().empty()) {
      result.entry = parse_entry(entry, container_);
      if (result.entry->bytes.size != static_cast<uint64_t>(result.bytes)) {
        entry.wrong("has another size than the weight");
      }
    }
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

  Check check(const Field& f) {
    Check result;
    const Field left = f.at("left");
    const Field relation = f.at("relation");
    const Field right = f.at("right");
    const Field message = f.at("message");
    result.left = Expr::parse(left, plan_.dim_names);
    result.right = Expr::parse(right, plan_.dim_names);
    result.message = message.text();
    result.relation = parse_relation(relation);
    return result;
  }

  Program program(const Field& f) {
    Program result = parse_program(f, plan_, container_);
    for (const Program& other : plan_.programs) {
      if (other.device == result.device && other.arch == result.arch) {
        f.wrong(cat("is a second program for ", result.device, " ", result.arch));
      }
    }
    return result;
  }

  const Field& root_;
  const Container& container_;
  Plan plan_;
  std::set<std::string> state_names_;
};

}  // namespace

Plan Plan::parse(const Container& container) {
  const Entry* entry = container.find("plan");
  if (entry == nullptr) fail(AOT_CORRUPT_PACKAGE, "the package has no plan");
  const std::string& expected = container.plan_sha256();
  if (!expected.empty() && sha256_hex(entry->bytes) != expected) {
    fail(AOT_CORRUPT_PACKAGE, "checksum of the plan is not what the header says, ", expected);
  }
  const JsonPtr json = parse_json(entry->bytes, "plan");
  const Field root(*json, "plan");
  Plan plan = Parser(root, container).parse();
  verify_plan(&plan);
  return plan;
}

const std::string& Program::step_name(const Step& step) const {
  if (step.kind == StepKind::kCall) return call_of(step).step;
  return step.kind == StepKind::kLaunch ? kernel_of(step).name
                                        : kStepNames[static_cast<size_t>(step.kind)];
}

std::vector<const Program*> Plan::programs_for(std::string_view device) const {
  std::vector<const Program*> found;
  for (const Program& program : programs) {
    if (program.device == device) found.push_back(&program);
  }
  return found;
}

std::string Plan::list_programs() const {
  std::string text;
  for (const Program& program : programs) {
    text += cat(text.empty() ? "" : ", ", program.device);
    if (!program.arch.empty()) text += cat(" ", program.arch);
    std::string levels;
    for (const Library& library : program.libraries) {
      levels += cat(levels.empty() ? "" : ", ", library.isa);
    }
    if (!levels.empty()) text += cat(" (", levels, ")");
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace aot_rt
