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

const Entry* parse_entry(const Field& field, const Container& container) {
  const Entry* entry = container.find(field.text());
  if (entry == nullptr) field.wrong(cat("names an entry '", field.text(), "' that is not there"));
  return entry;
}

}  // namespace aot_rt
