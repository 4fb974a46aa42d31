// The execution plan as checked data: what docs/format.md describes, with every id validated.
#ifndef AOT_SRC_PLAN_H_
#define AOT_SRC_PLAN_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
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

// Position in `Program::arena` order; `above` are earlier positions.
struct ArenaSlot {
  int32_t buffer = 0;
  std::vector<int32_t> above;
};

// A shared object with all kernels of a program, for one instruction set level.
struct Library {
  const Entry* entry = nullptr;
  std::string isa;
  std::string sha256;
};

// A kernel. Without an entry it is a function of the libraries, at the same position; with one, the
// entry holds the device's code and the rest says how it is launched.
struct Kernel {
  std::string name;
  const Entry* entry = nullptr;
  std::string sha256;             // of the entry
  std::string symbol;             // the function's name in the device code
  int32_t threads = 0;            // per block
  int64_t shared = 0;             // bytes of dynamic shared memory per block
  int64_t scratch = 0;            // bytes of global scratch per block
  int64_t scratch_alignment = 1;  // a power of 2
  bool faults = false;            // takes the address of a fault word after its buffers
};

struct Step {
  int32_t kernel = 0;
  std::vector<int32_t> buffers;
  std::vector<Expr> sizes;
  Expr work;                 // libraries: independent units, …
  int64_t grain = 1;         // … the least number worth a thread, …
  Expr scratch;              // … and bytes per worker
  std::array<Expr, 3> grid;  // device code: blocks per dimension
  int32_t origin = -1;       // -1: none
};

// What runs on one architecture of one device: memory, code, launches.
struct Program {
  std::string device;
  std::string arch;  // "": its libraries say
  std::vector<Buffer> buffers;
  std::vector<ArenaSlot> arena;
  std::vector<Library> libraries;
  std::vector<Kernel> kernels;
  std::vector<Step> steps;
  std::vector<int32_t> outputs;  // the buffer of each output

  const Kernel& kernel_of(const Step& step) const {
    return kernels[static_cast<size_t>(step.kernel)];
  }
  const Buffer& buffer_of_output(size_t output) const {
    return buffers[static_cast<size_t>(outputs[output])];
  }
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
  std::vector<Check> checks;
  std::vector<std::string> origins;                            // "model.py:12 aten.add.Tensor"
  std::vector<Program> programs;                               // at most one per device and arch
  std::vector<std::pair<std::string, std::string>> checksums;  // entry name, sha256 hex

  // Parses the entry `plan`. Throws CORRUPT_PACKAGE, INCOMPATIBLE (major version) or UNSUPPORTED
  // (an element type or storage that a newer minor version brought).
  static Plan parse(const Container& container);

  // "" for a step without origin.
  std::string origin_of(const Step& step) const {
    return step.origin < 0 ? std::string() : origins[static_cast<size_t>(step.origin)];
  }

  // The programs of a device, in the plan's order.
  std::vector<const Program*> programs_for(std::string_view device) const;

  // What the package can run on, for messages: "cpu (x86-64-v2, x86-64-v3), cuda sm_90".
  std::string list_programs() const;
};

}  // namespace aot_rt

#endif  // AOT_SRC_PLAN_H_
