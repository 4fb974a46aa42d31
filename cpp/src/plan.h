// The execution plan as checked data: what docs/format.md describes, with every id validated.
#ifndef AOT_SRC_PLAN_H_
#define AOT_SRC_PLAN_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtype.h"
#include "expr.h"
#include "operator_call.h"
#include "safetensors.h"
#include "shared_list.h"
#include "verify/fact.h"

namespace aot_rt {

// A symbol, bound by one size of one input: value = (size - offset) / divisor; or a measured one,
// which a step of each program binds.
struct Dim {
  std::string name;
  std::string label;
  Range range;
  int64_t multiple_of = 1;
  int32_t input = 0;  // -1: measured
  int32_t axis = 0;
  int64_t divisor = 1;
  int64_t offset = 0;

  bool measured() const { return input < 0; }
};

struct TensorSpec {
  std::string name;
  const DType* dtype = nullptr;
  std::vector<Expr> shape;
  std::vector<Expr> strides;  // in elements, same length
  bool changed = false;       // of an input: a run leaves a new value in the caller's memory
};

// Memory that a session keeps from run to run, C-contiguous.
struct State {
  TensorSpec spec;               // every size is a constant
  const Entry* entry = nullptr;  // its first value; nullptr: zeros
  int64_t bytes = 0;
  int64_t offset = 0;  // in the block of all states
};

enum class Storage : uint8_t { kInput, kEntry, kArena, kOutput, kState, kSlice };

struct Buffer {
  std::string name;
  const DType* dtype = nullptr;
  Expr bytes;
  Storage storage = Storage::kArena;
  int32_t index = 0;             // of the input, output or state; kSlice: of what it is part of
  const Entry* entry = nullptr;  // kEntry
  int64_t offset = 0;            // kEntry: bytes into the entry
  Expr stride;                   // kSlice: bytes from one turn of its loop to the next
  int32_t loop = -1;             // kSlice: the step that is this loop
  int32_t scope = 0;             // in which its size is known
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
  bool waits = false;             // may start early: waits by itself for the launch ahead of it
};

// A shared object with custom operators, which the package carries.
struct OperatorLibrary {
  const Entry* entry = nullptr;
  std::string sha256;
};

enum class StepKind : uint8_t { kLaunch, kBranch, kWhile, kRepeat, kCopy, kSizes, kCheck, kCall };

// A launch, or a control step. A step that has parts is followed by their steps.
struct Step {
  StepKind kind = StepKind::kLaunch;
  int32_t kernel = 0;
  // Of a launch: its arguments. kBranch, kWhile, kCheck: the bool. kCopy: from, to. kSizes: where
  // the numbers are, one for each of `dims`. kCall: its tensors, results last.
  std::vector<int32_t> buffers;
  std::vector<Expr> sizes;
  Expr work;                 // libraries: independent units, …
  int64_t grain = 1;         // … the least number worth a thread, …
  Expr scratch;              // … and bytes per worker
  std::array<Expr, 3> grid;  // device code: blocks per dimension
  int32_t origin = -1;       // -1: none
  // Steps of each part: then and else, condition and body, or the body.
  std::array<int32_t, 2> parts{};
  Expr count;                 // kRepeat: turns
  std::vector<int32_t> dims;  // kSizes
  int32_t scope = 0;          // kSizes: the scope that it begins
  std::string message;        // kCheck
  int32_t call = -1;          // kCall: in `Program::calls`
  // Of a launch: what the variables of its kernel's declaration stand for.
  std::vector<Expr> values;
};

// The part of a program in which some measured dims are known: the whole program is scope 0, each
// kSizes step begins another. The lists hold what is known as soon as its dims are, and not before.
struct Scope {
  int32_t parent = -1;
  std::vector<int32_t> dims;
  std::vector<int32_t> buffers;   // whose bytes are
  std::vector<int32_t> slots;     // positions in `Program::arena`
  std::vector<int32_t> launches;  // steps all of whose sizes are
  std::vector<int32_t> outputs;   // whose sizes are
  std::vector<int32_t> checks;    // of the plan
};

// Copies a buffer to an input's or a state's own memory when all steps have succeeded. The buffer
// has the plan's layout of the input.
struct Update {
  bool input = false;  // else a state
  int32_t index = 0;   // of the input or state
  int32_t buffer = 0;
};

struct Routine;

// An entry that follows from the model's own weights.
struct Derived {
  const Entry* entry = nullptr;
  std::vector<int32_t> sources;  // in `Plan::weights`; the routine's inputs
  int32_t routine = 0;           // in `Program::routines`
};

// What runs on one architecture of one device: memory, code, launches.
struct Program {
  std::string device;
  std::string arch;  // "": its libraries say
  std::vector<Buffer> buffers;
  std::vector<ArenaSlot> arena;
  SharedList<Library> libraries;
  SharedList<Kernel> kernels;
  std::vector<Step> steps;
  std::vector<OperatorCall> calls;  // of custom operators
  SharedList<OperatorLibrary> operator_libraries;
  std::vector<int32_t> outputs;  // the buffer of each output
  std::vector<Update> updates;
  // The weight program: how derived entries are computed again when weights are replaced.
  std::vector<std::shared_ptr<Routine>> routines;
  std::vector<Derived> derived;
  std::vector<Scope> scopes = std::vector<Scope>(1);  // parents first
  bool straight = true;                               // launches alone, once each
  bool reads_back = false;                            // steps read what earlier ones computed
  bool declared = false;                              // its kernels say what they touch
  // What each entry of its code said when that was proved: copies, which nobody else writes.
  std::map<const Entry*, std::string> declarations;
  Unproved unproved;  // checked when sizes are bound: check_unproved

  const Kernel& kernel_of(const Step& step) const {
    return kernels[static_cast<size_t>(step.kernel)];
  }
  // nullptr: the entry declared nothing.
  const std::string* declarations_of(const Entry* code) const {
    const auto found = declarations.find(code);
    return found == declarations.end() ? nullptr : &found->second;
  }
  const OperatorCall& call_of(const Step& step) const {
    return calls[static_cast<size_t>(step.call)];
  }
  // The kernel's name, or what the control step is: "branch", "call ns::name".
  const std::string& step_name(const Step& step) const;
  const Buffer& buffer_of_output(size_t output) const {
    return buffers[static_cast<size_t>(outputs[output])];
  }
};

// A fact about dims that the model relies on.
struct Check {
  Expr left;
  Relation relation = Relation::kEqual;
  Expr right;
  std::string message;
};

// One of the model's own weights, as whoever replaces weights must give it.
struct WeightSpec {
  std::string name;  // in the model's state dict
  const DType* dtype = nullptr;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  std::vector<std::string> aliases;  // of the same tensor (tied weights)
  const Entry* entry = nullptr;      // nullptr: only what is derived from it is stored
  bool required = false;             // the model computes with it, and a state dict has it
};

// Immutable. Pointers to entries live as long as the container that it was parsed with.
struct Plan {
  int64_t minor = 0;  // version of its format
  // All kernels say what they touch, so that all launches are proved; else they are trusted, as
  // those of packages of format 1.0 are.
  bool declared = false;
  std::string compiler;
  std::string model;
  std::vector<Dim> dims;
  std::vector<std::string> dim_names;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<State> states;
  int64_t state_bytes = 0;  // of the block that holds all states
  std::vector<Check> checks;
  SharedList<std::string> origins;                             // "model.py:12 aten.add.Tensor"
  std::vector<WeightSpec> weights;                             // empty: they cannot be replaced
  std::vector<Program> programs;                               // at most one per device and arch
  std::vector<std::pair<std::string, std::string>> checksums;  // entry name, sha256 hex

  // Parses the entry `plan`. Throws CORRUPT_PACKAGE, INCOMPATIBLE (major version) or UNSUPPORTED
  // (an element type or storage that a newer minor version brought).
  static Plan parse(const Container& container);

  // "" for a step without origin.
  std::string origin_of(const Step& step) const {
    return step.origin < 0 ? std::string() : origins[static_cast<size_t>(step.origin)];
  }

  // The values of dims that are not known yet.
  static constexpr int64_t kUnknown = -1;

  // The programs of a device, in the plan's order.
  std::vector<const Program*> programs_for(std::string_view device) const;

  // What the package can run on, for messages: "cpu (x86-64-v2, x86-64-v3), cuda sm_90".
  std::string list_programs() const;
};

// A part of a weight program: a plan of its own whose inputs are weights and whose only output is a
// derived entry. The code is the program's that it belongs to.
struct Routine {
  Plan plan;  // without programs
  Program body;
};

}  // namespace aot_rt

#endif  // AOT_SRC_PLAN_H_
