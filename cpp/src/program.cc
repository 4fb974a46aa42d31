#include "program.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "error.h"
#include "plan_fields.h"
#include "program_flow.h"
#include "weight_program.h"

namespace aot_rt {
namespace {

constexpr int64_t kMaxAlignment = int64_t{1} << 20;    // of scratch
constexpr int64_t kMaxKernelBytes = int64_t{1} << 40;  // of shared memory or scratch

// Parses the parts of one program.
class Parser {
 public:
  Parser(const Field& root, const Plan& plan, const Container& container)
      : root_(root), plan_(plan), container_(container) {}

  Program parse() {
    const Field device = root_.at("device");
    const Field arch = root_.at("arch");
    program_.device = device.text();
    program_.arch = arch.text();
    root_.each("libraries", [this](const Field& f) { program_.libraries.push_back(library(f)); });
    if (root_.has("operator_libraries")) {
      root_.each("operator_libraries", [this](const Field& f) {
        program_.operator_libraries.push_back(operator_library(f));
      });
    }
    root_.each("kernels", [this](const Field& f) { program_.kernels.push_back(kernel(f)); });
    parse_body();
    if (root_.has("updates")) {
      root_.each("updates", [this](const Field& f) { program_.updates.push_back(update(f)); });
    }
    return std::move(program_);
  }

  // The buffers, arena, steps and outputs of a routine of `owner`, with the code of that.
  Program parse_as_part_of(const Program& owner) {
    program_.device = owner.device;
    program_.arch = owner.arch;
    program_.libraries = owner.libraries;
    program_.operator_libraries = owner.operator_libraries;
    program_.kernels = owner.kernels;
    parse_body();
    return std::move(program_);
  }

 private:
  void parse_body() {
    root_.each("buffers", [this](const Field& f) { program_.buffers.push_back(buffer(f)); });
    arena_position_.assign(program_.buffers.size(), -1);
    root_.each("arena", [this](const Field& f) { program_.arena.push_back(arena_slot(f)); });
    root_.each("steps", [this](const Field& f) { program_.steps.push_back(step(f)); });
    root_.each("outputs", [this](const Field& f) {
      program_.outputs.push_back(f.id(program_.buffers.size()));
    });
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
    } else if (kind.text() == "state") {
      const Field index = storage.at("index");
      result.storage = Storage::kState;
      result.index = index.id(plan_.states.size());
    } else if (kind.text() == "slice") {
      const Field of = storage.at("of");
      const Field stride = storage.at("stride");
      const Field loop = storage.at("step");
      result.storage = Storage::kSlice;
      result.index = of.id(program_.buffers.size());
      result.stride = Expr::parse(stride, plan_.dim_names);
      result.loop = loop.id(size_t{std::numeric_limits<int32_t>::max()});
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
    result.buffer = buffer.id(program_.buffers.size());
    int32_t& position = arena_position_[static_cast<size_t>(result.buffer)];
    if (position >= 0) buffer.wrong("is placed twice");
    for (size_t i = 0; i < above.size(); ++i) {
      const Field item = above.at(i);
      const int32_t below = arena_position_[static_cast<size_t>(item.id(program_.buffers.size()))];
      if (below < 0) item.wrong("is not placed before");
      result.above.push_back(below);
    }
    position = static_cast<int32_t>(program_.arena.size());
    return result;
  }

  Library library(const Field& f) {
    Library result;
    const Field entry = f.at("entry");
    const Field isa = f.at("isa");
    const Field sha256 = f.at("sha256");
    result.entry = parse_entry(entry, container_);
    result.isa = isa.text();
    result.sha256 = sha256.text();
    return result;
  }

  OperatorLibrary operator_library(const Field& f) {
    OperatorLibrary result;
    const Field entry = f.at("entry");
    const Field sha256 = f.at("sha256");
    result.entry = parse_entry(entry, container_);
    result.sha256 = sha256.text();
    return result;
  }

  Kernel kernel(const Field& f) {
    Kernel result;
    const Field name = f.at("name");
    result.name = name.text();
    if (!f.has("entry")) return result;
    const Field entry = f.at("entry");
    const Field sha256 = f.at("sha256");
    const Field symbol = f.at("symbol");
    const Field threads = f.at("threads");
    const Field alignment = f.at("scratch_alignment");
    const Field faults = f.at("faults");
    result.entry = parse_entry(entry, container_);
    result.sha256 = sha256.text();
    result.symbol = symbol.text();
    if (result.symbol.empty()) symbol.wrong("is empty");
    if (threads.integer_from(1) > kMaxThreads) threads.wrong(cat("is above ", kMaxThreads));
    result.threads = static_cast<int32_t>(threads.integer());
    result.shared = kernel_bytes(f, "shared");
    result.scratch = kernel_bytes(f, "scratch");
    result.scratch_alignment = alignment.integer_from(1);
    if ((result.scratch_alignment & (result.scratch_alignment - 1)) != 0) {
      alignment.wrong("must be a power of 2");
    }
    if (result.scratch_alignment > kMaxAlignment) alignment.wrong(cat("is above ", kMaxAlignment));
    result.faults = faults.boolean();
    if (f.has("waits")) {
      const Field waits = f.at("waits");
      result.waits = waits.boolean();
    }
    return result;
  }

  static int64_t kernel_bytes(const Field& f, const char* key) {
    const Field field = f.at(key);
    const int64_t bytes = field.integer_from(0);
    if (bytes > kMaxKernelBytes) field.wrong("is too large");
    return bytes;
  }

  Step step(const Field& f) {
    Step result;
    if (!control_step(f, &result)) launch(f, &result);
    if (f.has("origin")) {
      const Field origin = f.at("origin");
      result.origin = origin.id(plan_.origins.size());
    }
    return result;
  }

  Update update(const Field& f) {
    Update result;
    const Field buffer = f.at("buffer");
    result.input = f.has("input");
    const Field index = f.at(result.input ? "input" : "state");
    result.index = index.id(result.input ? plan_.inputs.size() : plan_.states.size());
    result.buffer = buffer.id(program_.buffers.size());
    return result;
  }

  void launch(const Field& f, Step* step) {
    const Field kernel = f.at("kernel");
    const Field buffers = f.at("buffers");
    const Field sizes = f.at("sizes");
    step->kernel = kernel.id(program_.kernels.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Field item = buffers.at(i);
      step->buffers.push_back(item.id(program_.buffers.size()));
    }
    step->sizes = parse_exprs(sizes, plan_.dim_names);
    if (f.has("values")) {
      const Field values = f.at("values");
      step->values = parse_exprs(values, plan_.dim_names);
    }
    if (program_.kernel_of(*step).entry != nullptr) {
      grid(f, step);
    } else {
      work(f, step);
    }
  }

  // Whether it is a control step, which is then read.
  bool control_step(const Field& f, Step* step) {
    if (f.has("branch")) {
      step->kind = StepKind::kBranch;
      buffer_id(f, "branch", step);
      step->parts = {part(f, "then"), part(f, "else")};
    } else if (f.has("while")) {
      step->kind = StepKind::kWhile;
      buffer_id(f, "while", step);
      step->parts = {part(f, "condition"), part(f, "body")};
    } else if (f.has("repeat")) {
      const Field count = f.at("repeat");
      step->kind = StepKind::kRepeat;
      step->count = Expr::parse(count, plan_.dim_names);
      step->parts = {part(f, "body"), 0};
    } else if (f.has("copy")) {
      step->kind = StepKind::kCopy;
      buffer_id(f, "copy", step);
      buffer_id(f, "to", step);
    } else if (f.has("read")) {
      step->kind = StepKind::kSizes;
      f.each("read", [this, step](const Field& pair) { size(pair, step); });
      step->parts = {part(f, "body"), 0};
    } else if (f.has("check")) {
      const Field message = f.at("message");
      step->kind = StepKind::kCheck;
      buffer_id(f, "check", step);
      step->message = message.text();
    } else if (f.has("call")) {
      step->kind = StepKind::kCall;
      step->call = static_cast<int32_t>(program_.calls.size());
      program_.calls.push_back(parse_operator_call(f, plan_.dim_names, program_.buffers.size()));
      program_.calls.back().each_tensor(
          [step](const TensorOperand& operand) { step->buffers.push_back(operand.buffer); });
    } else {
      return false;
    }
    return true;
  }

  void buffer_id(const Field& f, const char* key, Step* step) {
    const Field id = f.at(key);
    step->buffers.push_back(id.id(program_.buffers.size()));
  }

  static int32_t part(const Field& f, const char* key) {
    const Field count = f.at(key);
    return count.id(size_t{std::numeric_limits<int32_t>::max()});
  }

  void size(const Field& pair, Step* step) {
    if (pair.size() != 2) pair.wrong("must be a dim and a buffer");
    const Field name = pair.at(size_t{0});
    const Field buffer = pair.at(size_t{1});
    const auto found = std::find(plan_.dim_names.begin(), plan_.dim_names.end(), name.text());
    if (found == plan_.dim_names.end()) {
      name.wrong(cat("names an unknown dim '", name.text(), "'"));
    }
    step->dims.push_back(static_cast<int32_t>(found - plan_.dim_names.begin()));
    step->buffers.push_back(buffer.id(program_.buffers.size()));
  }

  void work(const Field& f, Step* step) {
    const Field work = f.at("work");
    const Field grain = f.at("grain");
    const Field scratch = f.at("scratch");
    step->work = Expr::parse(work, plan_.dim_names);
    step->grain = grain.integer_from(1);
    step->scratch = Expr::parse(scratch, plan_.dim_names);
  }

  void grid(const Field& f, Step* step) {
    const Field grid = f.at("grid");
    if (grid.size() != step->grid.size()) grid.wrong("must be three numbers");
    for (size_t i = 0; i < step->grid.size(); ++i) {
      const Field item = grid.at(i);
      step->grid[i] = Expr::parse(item, plan_.dim_names);
    }
  }

  const Field& root_;
  const Plan& plan_;
  const Container& container_;
  Program program_;
  std::vector<int32_t> arena_position_;  // by buffer; -1: not placed yet
};

// Whether a buffer is of the type in which a tensor is stored.
bool holds(const Buffer& buffer, const TensorSpec& tensor) {
  return buffer.dtype == &stored_dtype(*tensor.dtype);
}

void check_outputs(const Program& program, const Plan& plan, const std::string& where) {
  if (program.outputs.size() != plan.outputs.size()) {
    fail(AOT_CORRUPT_PACKAGE, where, ".outputs names ", program.outputs.size(),
         " buffers, the plan has ", plan.outputs.size(), " outputs");
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (!holds(program.buffer_of_output(i), plan.outputs[i])) {
      fail(AOT_CORRUPT_PACKAGE, where, ".outputs[", i, "]: the buffer's dtype is not the output's");
    }
    if (program.buffer_of_output(i).storage == Storage::kSlice) {  // nowhere behind its loop
      fail(AOT_CORRUPT_PACKAGE, where, ".outputs[", i, "] is a slice");
    }
  }
}

using Wrong = std::function<void(const std::string& problem)>;  // throws

void check_entry(const Buffer& buffer, const Wrong& wrong) {
  const auto size = static_cast<uint64_t>(buffer.entry->bytes.size);
  const auto offset = static_cast<uint64_t>(buffer.offset);
  const int64_t bytes = buffer.bytes.is_constant() ? buffer.bytes.constant() : 0;
  if (bytes < 0 || offset > size || static_cast<uint64_t>(bytes) > size - offset) {
    wrong(cat(" reaches beyond its entry '", buffer.entry->name, "'"));
  }
  if (buffer.offset % buffer.dtype->size != 0) {
    wrong(" does not begin at a multiple of its element size");
  }
}

void check_state(const Buffer& buffer, const State& state, const Wrong& wrong) {
  if (!holds(buffer, state.spec)) {
    wrong(": its dtype is not that of its state");
  }
  if (!buffer.bytes.is_constant() || buffer.bytes.constant() > state.bytes) {
    wrong(cat(" is larger than its state '", state.spec.name, "'"));
  }
}

void check_buffers(const Program& program, const Plan& plan, const std::string& where) {
  std::vector<bool> placed(program.buffers.size(), false);
  for (const ArenaSlot& slot : program.arena) placed[static_cast<size_t>(slot.buffer)] = true;
  std::vector<bool> given(plan.inputs.size(), false);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    const auto index = static_cast<size_t>(buffer.index);
    const auto wrong = [&](const std::string& problem) {
      fail(AOT_CORRUPT_PACKAGE, where, ".buffers[", i, "] ('", buffer.name, "')", problem);
    };
    if (placed[i] != (buffer.storage == Storage::kArena)) {
      wrong(placed[i] ? " is placed in the arena, but is stored elsewhere"
                      : " is stored in the arena, but has no place there");
    }
    if (buffer.storage == Storage::kOutput && static_cast<size_t>(program.outputs[index]) != i) {
      wrong(" is not the buffer of its output");
    }
    if (buffer.storage == Storage::kInput) {
      if (given[index]) wrong(" is a second buffer of its input");
      given[index] = true;
      if (!holds(buffer, plan.inputs[index])) {
        wrong(": its dtype is not that of its input");
      }
    }
    if (buffer.storage == Storage::kEntry) check_entry(buffer, wrong);
    if (buffer.storage == Storage::kState) check_state(buffer, plan.states[index], wrong);
  }
}

void check_updates(const Program& program, const Plan& plan, const std::string& where) {
  std::vector<bool> updated(plan.inputs.size(), false);
  for (size_t i = 0; i < program.updates.size(); ++i) {
    const Update& update = program.updates[i];
    const auto index = static_cast<size_t>(update.index);
    const Buffer& buffer = program.buffers[static_cast<size_t>(update.buffer)];
    const TensorSpec& target = update.input ? plan.inputs[index] : plan.states[index].spec;
    const std::string what = cat(where, ".updates[", i, "]");
    if (!holds(buffer, target)) {
      fail(AOT_CORRUPT_PACKAGE, what, ": its buffer's dtype is not that of '", target.name, "'");
    }
    if (buffer.storage != Storage::kArena) {
      fail(AOT_CORRUPT_PACKAGE, what, ": its buffer is no temporary");
    }
    if (!update.input) continue;
    if (updated[index]) fail(AOT_CORRUPT_PACKAGE, what, " is a second update of its input");
    updated[index] = true;
  }
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    if (updated[i] != plan.inputs[i].changed) {
      fail(AOT_CORRUPT_PACKAGE, where, ".updates: input '", plan.inputs[i].name, "' ",
           updated[i] ? "has one, but is not said to change" : "changes, but has none");
    }
  }
}

// Code is in libraries or in entries of the kernels, never in both: a session knows which.
void check_code(const Program& program, const std::string& where) {
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const bool in_entry = program.kernels[i].entry != nullptr;
    if (in_entry != (program.kernels[0].entry != nullptr)) {
      fail(AOT_CORRUPT_PACKAGE, where, ".kernels[", i, "]: some kernels have entries, some do not");
    }
    if (in_entry && !program.libraries.empty()) {
      fail(AOT_CORRUPT_PACKAGE, where, " has libraries and kernels with entries of their own");
    }
  }
}

void check_body(const Program& program, const Plan& plan, const std::string& where) {
  check_outputs(program, plan, where);
  check_buffers(program, plan, where);
}

}  // namespace

Program parse_program(const Field& field, const Plan& common, const Container& container) {
  Program program = Parser(field, common, container).parse();
  const std::string where = field.path();
  check_body(program, common, where);
  check_updates(program, common, where);
  check_code(program, where);
  check_flow(common, where, &program);
  if (field.has("weights")) {
    const Field weights = field.at("weights");
    parse_weight_program(weights, common, container, &program);
  }
  return program;
}

Program parse_routine_body(const Field& field, const Plan& plan, const Container& container,
                           const Program& owner) {
  Program body = Parser(field, plan, container).parse_as_part_of(owner);
  check_body(body, plan, field.path());
  check_flow(plan, field.path(), &body);
  return body;
}

}  // namespace aot_rt
