#include <utility>

#include "error.h"
#include "verify/rules.h"

namespace aot_rt {
namespace {

constexpr int64_t kDeviceAlignment = 16;  // of what kernels of devices get

// The facts of one launch.
class Launch {
 public:
  Launch(Prover* prover, const Declaration& declared, int32_t at)
      : prover_(*prover),
        program_(prover->program()),
        declared_(declared),
        step_(program_.steps[static_cast<size_t>(at)]),
        at_(at),
        device_(program_.kernel_of(step_).entry != nullptr),
        guard_(guard()) {}

  void require() {
    if (guard_.is_constant() && guard_.constant() <= 0) return;  // never launched
    count("values", step_.values.size(), declared_.dims.size());
    count("buffers", step_.buffers.size(), declared_.buffers.size());
    count("sizes", step_.sizes.size(), declared_.sizes.size());
    for (size_t i = 0; i < declared_.dims.size(); ++i) value(i);
    for (size_t i = 0; i < declared_.relations.size(); ++i) {
      const DeclaredRelation& row = declared_.relations[i];
      add(Rule::kRelation, i, row.left.with(step_.values), row.relation,
          row.right.with(step_.values));
    }
    for (size_t i = 0; i < declared_.sizes.size(); ++i) {
      same(Rule::kSizeArgument, i, step_.sizes[i], declared_.sizes[i]);
    }
    for (size_t i = 0; i < declared_.buffers.size(); ++i) argument(i);
    if (device_) {
      for (size_t i = 0; i < step_.grid.size(); ++i) {
        same(Rule::kGrid, i, step_.grid[i], declared_.grid[i]);
      }
    } else {
      same(Rule::kWork, 0, step_.work, declared_.work);
      at_most(Rule::kScratch, 0, declared_.scratch, step_.scratch);
    }
  }

 private:
  template <typename... Args>
  [[noreturn]] void wrong(const Args&... problem) const {
    fail(AOT_CORRUPT_PACKAGE, prover_.where(), ".steps[", at_, "] ('", program_.step_name(step_),
         "') ", problem...);
  }

  // What a launch that is done has above 0.
  Expr guard() const {
    if (!device_) return step_.work;
    Expr blocks = step_.grid[0];
    for (const size_t axis : {1, 2}) {
      if (step_.grid[axis] == Expr(1)) continue;
      blocks = Expr::join(Expr::Kind::kMin, blocks, step_.grid[axis]);
    }
    return blocks;
  }

  void count(const char* what, size_t given, size_t needed) const {
    if (given == needed) return;
    wrong("gives ", given, " ", what, ", the kernel declares ", needed);
  }

  void add(Rule rule, size_t item, Expr left, Relation relation, Expr right, int32_t buffer = -1) {
    Fact fact;
    fact.rule = rule;
    fact.relation = relation;
    fact.step = at_;
    fact.item = static_cast<int32_t>(item);
    fact.buffer = buffer;
    fact.left = std::move(left);
    fact.right = std::move(right);
    fact.guard = guard_;
    prover_.require(std::move(fact));
  }

  // What the compiler writes is the declared expression with the values put in: seen at once.
  void same(Rule rule, size_t item, const Expr& given, const Expr& declared) {
    if (declared.matches(step_.values, given)) return;
    add(rule, item, given, Relation::kEqual, declared.with(step_.values));
  }

  void at_most(Rule rule, size_t item, const Expr& declared, const Expr& given,
               int32_t buffer = -1) {
    if (declared.matches(step_.values, given)) return;
    add(rule, item, declared.with(step_.values), Relation::kLessEqual, given, buffer);
  }

  void value(size_t i) {
    const DeclaredDim& dim = declared_.dims[i];
    const Expr& value = step_.values[i];
    add(Rule::kLeastValue, i, Expr(dim.range.min), Relation::kLessEqual, value);
    if (dim.range.max != kUnbounded) {
      add(Rule::kMostValue, i, value, Relation::kLessEqual, Expr(dim.range.max));
    }
    if (dim.multiple_of == 1) return;
    add(Rule::kMultiple, i, Expr::join(Expr::Kind::kMod, value, Expr(dim.multiple_of)),
        Relation::kEqual, Expr(0));
  }

  void argument(size_t i) {
    const DeclaredBuffer& declared = declared_.buffers[i];
    const int32_t id = step_.buffers[i];
    const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
    const Buffer* whole = &buffer;
    while (whole->storage == Storage::kSlice) {
      if (device_) aligned(i, *whole, whole->stride);
      whole = &program_.buffers[static_cast<size_t>(whole->index)];
    }
    if (device_ && whole->storage == Storage::kEntry) aligned(i, *whole, Expr(whole->offset));
    // Temporaries hold values of several types, one after the other.
    const bool fits = whole->storage == Storage::kArena ? buffer.dtype->size == declared.dtype->size
                                                        : buffer.dtype == declared.dtype;
    if (!fits) {
      wrong("gives '", buffer.name, "' of ", buffer.dtype->name, " for argument ", i,
            ", the kernel declares ", declared.dtype->name);
    }
    if (declared.written &&
        (whole->storage == Storage::kInput || whole->storage == Storage::kEntry)) {
      wrong("writes an input or an entry, '", buffer.name, "', as argument ", i);
    }
    at_most(Rule::kTouched, i, declared.bytes, buffer.bytes, id);
  }

  void aligned(size_t i, const Buffer& buffer, const Expr& begin) const {
    if (prover_.divides(kDeviceAlignment, begin)) return;
    wrong("gives '", buffer.name, "' for argument ", i, ", which may begin between multiples of ",
          kDeviceAlignment, " bytes");
  }

  Prover& prover_;
  const Program& program_;
  const Declaration& declared_;
  const Step& step_;
  int32_t at_;
  bool device_;
  Expr guard_;
};

// What a device's kernel is launched with, whatever the step.
void check_kernel(const Prover& prover, size_t id, const Declaration& declared) {
  const Kernel& kernel = prover.program().kernels[id];
  const auto check = [&](const char* what, int64_t given, int64_t needed, bool fits) {
    if (fits) return;
    fail(AOT_CORRUPT_PACKAGE, prover.where(), ".kernels[", id, "] ('", kernel.name, "'): ", what,
         " is ", given, ", the kernel declares ", needed);
  };
  const bool scratch =
      declared.scratch.is_constant() && declared.scratch.constant() <= kernel.scratch;
  check("threads", kernel.threads, declared.threads, kernel.threads == declared.threads);
  check("shared", kernel.shared, declared.shared, kernel.shared == declared.shared);
  check("scratch", kernel.scratch, declared.scratch.constant(), scratch);
  check("scratch_alignment", kernel.scratch_alignment, declared.scratch_alignment,
        kernel.scratch_alignment >= declared.scratch_alignment);
  check("faults", kernel.faults ? 1 : 0, declared.faults ? 1 : 0, kernel.faults == declared.faults);
  check("waits", kernel.waits ? 1 : 0, declared.waits ? 1 : 0, kernel.waits == declared.waits);
}

}  // namespace

void require_launches(Prover* prover, const std::vector<Declaration>& declared) {
  const Program& program = prover->program();
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    if (program.kernels[i].entry != nullptr) check_kernel(*prover, i, declared[i]);
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.kind != StepKind::kLaunch) continue;
    Launch(prover, declared[static_cast<size_t>(step.kernel)], static_cast<int32_t>(i)).require();
  }
}

}  // namespace aot_rt
