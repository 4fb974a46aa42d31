// The execution plan as checked data: what docs/format.md describes, with every id validated.
#ifndef AOT_SRC_PLAN_H_
#define AOT_SRC_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dtype.h"
#include "expr.h"
#include "safetensors.h"

namespace aot_rt {

// A symbol, bound by one size of one input: value = (size - offset) / divisor.
struct Dim {
  std::string name;
  std::string label;
  Range range;
  int64_t multiple_of = 1;
  int32_t input = 0;
  int32_t axis = 0;
  int64_t divisor = 1;
  int64_t offset = 0;
};

struct TensorSpec {
  std::string name;
  const DType* dtype = nullptr;
  std::vector<Expr> shape;
  std::vector<Expr> strides;  // in elements, same length
  int32_t buffer = 0;
};

enum class Storage : uint8_t { kInput, kEntry, kArena, kOutput };

struct Buffer {
  std::string name;
  const DType* dtype = nullptr;
  Expr bytes;
  Storage storage = Storage::kArena;
  int32_t index = 0;             // of the input or output
  const Entry* entry = nullptr;  // kEntry
  int64_t offset = 0;            // kEntry: bytes into the entry
};

// Position in `Plan::arena` order; `above` are earlier positions.
struct ArenaSlot {
  int32_t buffer = 0;
  std::vector<int32_t> above;
};

struct Library {
  const Entry* entry = nullptr;
  std::string device;
  std::string isa;
  std::string sha256;
};

struct Step {
  int32_t kernel = 0;
  std::vector<int32_t> buffers;
  std::vector<Expr> sizes;
  Expr work;
  int64_t grain = 1;
  Expr scratch;
  int32_t origin = -1;  // -1: none
};

enum class Relation : uint8_t { kEqual, kLessEqual, kLess };

// A fact about dims that the model relies on.
struct Check {
  Expr left;
  Relation relation = Relation::kEqual;
  Expr right;
  std::string message;
};

// Immutable. Pointers to entries live as long as the container that it was parsed with.
struct Plan {
  std::string compiler;
  std::string model;
  std::vector<Dim> dims;
  std::vector<std::string> dim_names;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<Buffer> buffers;
  std::vector<ArenaSlot> arena;
  std::vector<Library> libraries;
  std::vector<std::string> kernels;
  std::vector<Step> steps;
  std::vector<Check> checks;
  std::vector<std::string> origins;                            // "model.py:12 aten.add.Tensor"
  std::vector<std::pair<std::string, std::string>> checksums;  // entry name, sha256 hex

  // Parses the entry `plan`. Throws CORRUPT_PACKAGE, INCOMPATIBLE (major version) or UNSUPPORTED
  // (an element type or storage that a newer minor version brought).
  static Plan parse(const Container& container);

  // "" for a step without origin.
  std::string origin_of(size_t step) const {
    const int32_t id = steps[step].origin;
    return id < 0 ? std::string() : origins[static_cast<size_t>(id)];
  }
};

// Relations between parts, which need the whole plan; throws CORRUPT_PACKAGE.
void check_plan(const Plan& plan);

}  // namespace aot_rt

#endif  // AOT_SRC_PLAN_H_
