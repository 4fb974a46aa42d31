#include "operator_call.h"

#include <limits>
#include <string_view>

#include "error.h"
#include "plan_fields.h"

namespace aot_rt {
namespace {

constexpr std::string_view kListSuffix = "[]";

struct KindName {
  std::string_view name;
  aot_argument_kind kind;
};

constexpr KindName kKinds[] = {
    {"none", AOT_ARGUMENT_NONE},   {"tensor", AOT_ARGUMENT_TENSOR}, {"int", AOT_ARGUMENT_INT},
    {"float", AOT_ARGUMENT_FLOAT}, {"bool", AOT_ARGUMENT_BOOL},     {"string", AOT_ARGUMENT_STRING},
};

class Parser {
 public:
  Parser(const std::vector<std::string>& dims, size_t buffers) : dims_(dims), buffers_(buffers) {}

  OperatorArgument argument(const Field& f) const {
    OperatorArgument result;
    const Field name = f.at("name");
    const Field kind = f.at("kind");
    const Field values = f.at("values");
    result.name = name.text();
    read_kind(kind, &result);
    if (f.has("changed")) {
      const Field changed = f.at("changed");
      result.changed = changed.boolean();
      if (result.changed && result.kind != AOT_ARGUMENT_TENSOR) changed.wrong("is for tensors");
    }
    const size_t count = values.size();
    if (!result.list && count != (result.kind == AOT_ARGUMENT_NONE ? 0U : 1U)) {
      values.wrong(cat("has ", count, " elements for the kind ", kind.text()));
    }
    for (size_t i = 0; i < count; ++i) {
      const Field item = values.at(i);
      value(item, &result);
    }
    return result;
  }

  TensorOperand tensor(const Field& f) const {
    TensorOperand result;
    const Field buffer = f.at("buffer");
    const Field shape = f.at("shape");
    result.buffer = buffer.id(buffers_);
    if (shape.size() > kMaxRank) shape.wrong(cat("has more than ", kMaxRank, " dimensions"));
    result.shape = parse_exprs(shape, dims_);
    return result;
  }

 private:
  static void read_kind(const Field& field, OperatorArgument* result) {
    std::string_view text = field.text();
    if (text.size() > kListSuffix.size() &&
        text.substr(text.size() - kListSuffix.size()) == kListSuffix) {
      result->list = true;
      text.remove_suffix(kListSuffix.size());
    }
    for (const KindName& row : kKinds) {
      if (row.name != text || (result->list && row.kind == AOT_ARGUMENT_NONE)) continue;
      result->kind = row.kind;
      return;
    }
    fail(AOT_UNSUPPORTED, field.path(), " is '", field.text(),
         "', which this runtime does not know; update the runtime");
  }

  void value(const Field& item, OperatorArgument* result) const {
    switch (result->kind) {
      case AOT_ARGUMENT_NONE:
        break;
      case AOT_ARGUMENT_TENSOR:
        result->tensors.push_back(tensor(item));
        break;
      case AOT_ARGUMENT_INT:
        result->ints.push_back(Expr::parse(item, dims_));
        break;
      case AOT_ARGUMENT_BOOL:
        result->bools.push_back(item.boolean() ? 1 : 0);
        break;
      case AOT_ARGUMENT_FLOAT:
        result->floats.push_back(number(item));
        break;
      case AOT_ARGUMENT_STRING:
        result->strings.push_back(item.text());
        break;
    }
  }

  // JSON has no words for what is not finite.
  static double number(const Field& item) {
    if (!item.is_string()) return item.number();
    if (item.text() == "inf") return std::numeric_limits<double>::infinity();
    if (item.text() == "-inf") return -std::numeric_limits<double>::infinity();
    if (item.text() != "nan") item.wrong("must be a number, or inf, -inf or nan");
    return std::numeric_limits<double>::quiet_NaN();
  }

  const std::vector<std::string>& dims_;
  size_t buffers_;
};

}  // namespace

OperatorCall parse_operator_call(const Field& field, const std::vector<std::string>& dims,
                                 size_t buffers) {
  const Parser parser(dims, buffers);
  OperatorCall call;
  const Field name = field.at("call");
  call.name = name.text();
  if (call.name.empty()) name.wrong("is empty");
  call.step = cat("call ", call.name);
  field.each("arguments",
             [&](const Field& item) { call.arguments.push_back(parser.argument(item)); });
  field.each("results", [&](const Field& item) { call.results.push_back(parser.tensor(item)); });
  return call;
}

}  // namespace aot_rt
