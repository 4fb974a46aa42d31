#include "plan_fields.h"

#include "error.h"

namespace aot_rt {

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

TensorSpec parse_tensor(const Field& field, const std::vector<std::string>& dims) {
  TensorSpec result;
  const Field name = field.at("name");
  const Field dtype = field.at("dtype");
  const Field shape = field.at("shape");
  const Field strides = field.at("strides");
  result.name = name.text();
  result.dtype = parse_dtype(dtype);
  if (shape.size() > kMaxRank) shape.wrong("has too many dimensions");
  if (strides.size() != shape.size()) strides.wrong("must be as long as the shape");
  result.shape = parse_exprs(shape, dims);
  result.strides = parse_exprs(strides, dims);
  if (field.has("changed")) {
    const Field changed = field.at("changed");
    result.changed = changed.boolean();
  }
  return result;
}

Relation parse_relation(const Field& field) {
  if (field.text() == "==") return Relation::kEqual;
  if (field.text() == "<=") return Relation::kLessEqual;
  if (field.text() == "<") return Relation::kLess;
  field.wrong(cat("is '", field.text(), "', must be ==, <= or <"));
}

const Entry* parse_entry(const Field& field, const Container& container) {
  const Entry* entry = container.find(field.text());
  if (entry == nullptr) field.wrong(cat("names an entry '", field.text(), "' that is not there"));
  return entry;
}

}  // namespace aot_rt
