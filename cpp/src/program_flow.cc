#include "program_flow.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "error.h"

namespace aot_rt {
namespace {

constexpr int kMaxDepth = 64;  // of parts inside of parts

bool has_type(const Buffer& buffer, std::string_view dtype) { return buffer.dtype->name == dtype; }

// Two walks over the steps: the first finds where measured dims become known, the second checks
// what steps use.
class FlowChecker {
 public:
  FlowChecker(const Plan& plan, const std::string& where, Program* program)
      : plan_(plan),
        where_(where),
        program_(*program),
        scope_of_dim_(plan.dims.size(), -1),
        turning_(program->steps.size(), false) {}

  void check() {
    const auto count = static_cast<int32_t>(program_.steps.size());
    for (size_t i = 0; i < plan_.dims.size(); ++i) {
      if (!plan_.dims[i].measured()) scope_of_dim_[i] = 0;
    }
    program_.scopes.assign(1, Scope{});
    nest(0, count, 0, false, 0);
    for (size_t i = 0; i < plan_.dims.size(); ++i) {
      if (scope_of_dim_[i] < 0) {
        fail(AOT_CORRUPT_PACKAGE, where_, ".steps read no '", plan_.dims[i].name,
             "', a dim that inputs do not bind");
      }
    }
    for (Buffer& buffer : program_.buffers) buffer.scope = scope_of(buffer.bytes);
    check_arena();
    check_slices();
    use(0, count, 0);
    list_scopes();
  }

 private:
  [[noreturn]] void wrong(int32_t step, const std::string& problem) const {
    fail(AOT_CORRUPT_PACKAGE, where_, ".steps[", step, "]", problem);
  }

  static bool reads_back(StepKind kind) {
    return kind == StepKind::kBranch || kind == StepKind::kWhile || kind == StepKind::kSizes ||
           kind == StepKind::kCheck;
  }

  const Buffer& buffer(int32_t id) const { return program_.buffers[static_cast<size_t>(id)]; }

  // The parts' sizes, and the scopes that steps begin. `inside`: of a branch or a loop.
  void nest(int32_t begin, int32_t end, int32_t scope, bool inside, int depth) {
    if (depth > kMaxDepth) wrong(begin, " is nested too deeply");
    for (int32_t at = begin; at < end;) {
      const Step& step = program_.steps[static_cast<size_t>(at)];
      if (step.kind != StepKind::kLaunch) program_.straight = false;
      if (reads_back(step.kind)) program_.reads_back = true;
      const int32_t within = step.kind == StepKind::kSizes ? begin_scope(at, scope, inside) : scope;
      const int32_t self = at++;
      for (const int32_t count : step.parts) {
        if (count > end - at) wrong(self, " has parts beyond the steps around it");
        const bool deeper = inside || step.kind != StepKind::kSizes;
        if (count > 0) nest(at, at + count, within, deeper, depth + 1);
        at += count;
      }
    }
  }

  int32_t begin_scope(int32_t at, int32_t parent, bool inside) {
    const Step& step = program_.steps[static_cast<size_t>(at)];
    const auto scope = static_cast<int32_t>(program_.scopes.size());
    for (const int32_t dim : step.dims) {
      int32_t& known = scope_of_dim_[static_cast<size_t>(dim)];
      const std::string& name = plan_.dims[static_cast<size_t>(dim)].name;
      if (known >= 0) wrong(at, cat(" reads '", name, "', which is known already"));
      known = scope;
      if (inside && is_of_output(dim)) {
        wrong(at, cat(" reads '", name, "', a size of an output, inside of a branch or loop"));
      }
    }
    program_.scopes.emplace_back();
    program_.scopes.back().parent = parent;
    program_.scopes.back().dims = step.dims;
    program_.steps[static_cast<size_t>(at)].scope = scope;
    return scope;
  }

  bool is_of_output(int32_t dim) const {
    bool found = false;
    const auto look = [&found, dim](int32_t used) { found = found || used == dim; };
    for (const TensorSpec& spec : plan_.outputs) {
      for (const Expr& size : spec.shape) size.each_dim(look);
      for (const Expr& stride : spec.strides) stride.each_dim(look);
    }
    return found;
  }

  int32_t scope_of(const Expr& expr) const {
    int32_t scope = 0;
    expr.each_dim([this, &scope](int32_t dim) {
      scope = std::max(scope, scope_of_dim_[static_cast<size_t>(dim)]);
    });
    return scope;
  }

  template <typename Exprs>
  int32_t scope_of_all(const Exprs& exprs) const {
    int32_t scope = 0;
    for (const Expr& expr : exprs) scope = std::max(scope, scope_of(expr));
    return scope;
  }

  int32_t scope_of_launch(const Step& step) const {
    int32_t scope = std::max(scope_of_all(step.sizes), scope_of_all(step.grid));
    scope = std::max({scope, scope_of(step.work), scope_of(step.scratch)});
    for (const int32_t id : step.buffers) scope = std::max(scope, buffer(id).scope);
    return scope;
  }

  // Scopes are numbered from the outside in: what needs the dims of several belongs to the last.
  void list_scopes() {
    const auto lists = [this](int32_t scope) -> Scope& {
      return program_.scopes[static_cast<size_t>(scope)];
    };
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      lists(program_.buffers[i].scope).buffers.push_back(static_cast<int32_t>(i));
    }
    for (size_t i = 0; i < program_.arena.size(); ++i) {
      lists(buffer(program_.arena[i].buffer).scope).slots.push_back(static_cast<int32_t>(i));
    }
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.kind != StepKind::kLaunch) continue;
      lists(scope_of_launch(step)).launches.push_back(static_cast<int32_t>(i));
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const TensorSpec& spec = plan_.outputs[i];
      const int32_t scope = std::max({scope_of_all(spec.shape), scope_of_all(spec.strides),
                                      program_.buffer_of_output(i).scope});
      lists(scope).outputs.push_back(static_cast<int32_t>(i));
    }
    for (size_t i = 0; i < plan_.checks.size(); ++i) {
      const int32_t scope =
          std::max(scope_of(plan_.checks[i].left), scope_of(plan_.checks[i].right));
      lists(scope).checks.push_back(static_cast<int32_t>(i));
    }
  }

  // Whether what belongs to scope `outer` is known in `scope`.
  bool known_in(int32_t outer, int32_t scope) const {
    while (scope > outer) scope = program_.scopes[static_cast<size_t>(scope)].parent;
    return scope == outer;
  }

  void check_expr(int32_t step, const Expr& expr, int32_t scope) const {
    expr.each_dim([this, step, scope](int32_t dim) {
      if (!known_in(scope_of_dim_[static_cast<size_t>(dim)], scope)) {
        wrong(step,
              cat(" uses '", plan_.dims[static_cast<size_t>(dim)].name, "' before it is known"));
      }
    });
  }

  // Temporaries of one scope share an arena.
  void check_arena() const {
    for (size_t i = 0; i < program_.arena.size(); ++i) {
      const ArenaSlot& slot = program_.arena[i];
      for (const int32_t below : slot.above) {
        const ArenaSlot& other = program_.arena[static_cast<size_t>(below)];
        if (buffer(other.buffer).scope != buffer(slot.buffer).scope) {
          fail(AOT_CORRUPT_PACKAGE, where_, ".arena[", i, "] lies above a buffer of another arena");
        }
      }
    }
  }

  void check_slices() const {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& slice = program_.buffers[i];
      if (slice.storage != Storage::kSlice) continue;
      const std::string what = cat(where_, ".buffers[", i, "] ('", slice.name, "')");
      if (static_cast<size_t>(slice.index) >= i || buffer(slice.index).dtype != slice.dtype) {
        fail(AOT_CORRUPT_PACKAGE, what, " is a slice of a later buffer, or of another type");
      }
      const auto loop = static_cast<size_t>(slice.loop);
      if (loop >= program_.steps.size() || program_.steps[loop].kind != StepKind::kRepeat) {
        fail(AOT_CORRUPT_PACKAGE, what, " is a slice in step ", loop, ", which is no counted loop");
      }
    }
  }

  // What the steps use is known where they stand.
  void use(int32_t begin, int32_t end, int32_t scope) {
    for (int32_t at = begin; at < end;) {
      const Step& step = program_.steps[static_cast<size_t>(at)];
      use_step(at, step, scope);
      const int32_t self = at++;
      if (step.kind == StepKind::kRepeat) turning_[static_cast<size_t>(self)] = true;
      const int32_t within = step.kind == StepKind::kSizes ? step.scope : scope;
      for (const int32_t count : step.parts) {
        use(at, at + count, within);
        at += count;
      }
      if (step.kind == StepKind::kRepeat) turning_[static_cast<size_t>(self)] = false;
    }
  }

  void use_step(int32_t at, const Step& step, int32_t scope) const {
    for (const int32_t id : step.buffers) use_buffer(at, id, scope);
    for (const Expr& expr : step.sizes) check_expr(at, expr, scope);
    for (const Expr& expr : step.grid) check_expr(at, expr, scope);
    check_expr(at, step.work, scope);
    check_expr(at, step.scratch, scope);
    check_expr(at, step.count, scope);
    switch (step.kind) {
      case StepKind::kBranch:
      case StepKind::kWhile:
      case StepKind::kCheck:
        if (!has_type(buffer(step.buffers[0]), "bool")) wrong(at, " reads what is no bool");
        break;
      case StepKind::kSizes:
        if (step.dims.empty()) wrong(at, " reads no sizes");
        for (const int32_t id : step.buffers) {
          if (!has_type(buffer(id), "int64")) wrong(at, " reads what is no int64");
        }
        break;
      case StepKind::kCopy:
        check_copy(at, step);
        break;
      case StepKind::kCall:
        check_call(at, program_.call_of(step), scope);
        break;
      case StepKind::kLaunch:
      case StepKind::kRepeat:
        break;
    }
  }

  void check_copy(int32_t at, const Step& step) const { check_written(at, step.buffers[1]); }

  // Slices have been checked: each is of an earlier buffer.
  void check_written(int32_t at, int32_t id) const {
    const Buffer* written = &buffer(id);
    while (written->storage == Storage::kSlice) written = &buffer(written->index);
    if (written->storage == Storage::kInput || written->storage == Storage::kEntry) {
      wrong(at, " writes an input or an entry");
    }
  }

  void check_call(int32_t at, const OperatorCall& call, int32_t scope) const {
    call.each_expr([this, at, scope](const Expr& expr) { check_expr(at, expr, scope); });
    std::vector<int32_t> used;
    for (const OperatorArgument& argument : call.arguments) {
      for (const TensorOperand& operand : argument.tensors) {
        if (argument.changed) check_written(at, operand.buffer);
        used.push_back(operand.buffer);
      }
    }
    for (const TensorOperand& result : call.results) {
      check_written(at, result.buffer);
      if (std::find(used.begin(), used.end(), result.buffer) != used.end()) {
        wrong(at, cat(" writes '", buffer(result.buffer).name,
                      "', which it also reads or writes otherwise"));
      }
      used.push_back(result.buffer);
    }
  }

  void use_buffer(int32_t at, int32_t id, int32_t scope) const {
    const Buffer* used = &buffer(id);
    check_expr(at, used->bytes, scope);
    while (used->storage == Storage::kSlice) {
      if (!turning_[static_cast<size_t>(used->loop)]) {
        wrong(at, cat(" uses '", used->name, "', a slice, outside of its loop"));
      }
      check_expr(at, used->stride, scope);
      used = &buffer(used->index);
      check_expr(at, used->bytes, scope);
    }
  }

  const Plan& plan_;
  const std::string& where_;
  Program& program_;
  std::vector<int32_t> scope_of_dim_;  // -1: not known anywhere
  std::vector<bool> turning_;          // by step: a loop that the walk is in
};

}  // namespace

void check_flow(const Plan& common, const std::string& where, Program* program) {
  FlowChecker(common, where, program).check();
}

}  // namespace aot_rt
