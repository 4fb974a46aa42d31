// Values that several parts of a plan are made of, read from its JSON.
#ifndef AOT_SRC_PLAN_FIELDS_H_
#define AOT_SRC_PLAN_FIELDS_H_

#include <string>
#include <vector>

#include "dtype.h"
#include "expr.h"
#include "json_text.h"
#include "plan.h"
#include "safetensors.h"

namespace aot_rt {

inline constexpr size_t kMaxRank = 64;
inline constexpr int64_t kMaxThreads = 1024;  // of a block

// A list of expressions over `dims`.
std::vector<Expr> parse_exprs(const Field& list, const std::vector<std::string>& dims);

// Throws UNSUPPORTED for a type that a newer minor version brought.
const DType* parse_dtype(const Field& field);

// An input or output.
TensorSpec parse_tensor(const Field& field, const std::vector<std::string>& dims);

// "==", "<=" or "<".
Relation parse_relation(const Field& field);

// The entry that the field names. Throws CORRUPT_PACKAGE when there is none.
const Entry* parse_entry(const Field& field, const Container& container);

}  // namespace aot_rt

#endif  // AOT_SRC_PLAN_FIELDS_H_
