#include <utility>

#include "error.h"
#include "verify/rules.h"

namespace aot_rt {
namespace {

using Kind = Expr::Kind;

Expr operator+(const Expr& a, const Expr& b) { return Expr::join(Kind::kAdd, a, b); }
Expr operator*(const Expr& a, const Expr& b) { return Expr::join(Kind::kMul, a, b); }

const Buffer& buffer_of(const Program& program, int32_t id) {
  return program.buffers[static_cast<size_t>(id)];
}

// Bytes from a tensor's first element to behind its last, where no size is 0.
Expr span_of(const TensorSpec& spec) {
  Expr last(1);
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    const Expr& size = spec.shape[i];
    if (size.is_constant() && size.constant() <= 1) continue;
    last = last + (size + Expr(-1)) * spec.strides[i];
  }
  return last * Expr(spec.dtype->size);
}

// The same, and 0 where a size is.
Expr bytes_of(const TensorSpec& spec) {
  Expr bytes = span_of(spec);
  for (const Expr& size : spec.shape) {
    if (size.is_constant() && size.constant() > 0) continue;
    if (size.is_constant()) return Expr(0);
    bytes = bytes * Expr::join(Kind::kMin, Expr(1), size);
  }
  return bytes;
}

// The dim that a size is 0 with; -1 when there is no single one: it is a dim, or a multiple of one.
int32_t dim_of(const Expr& size) {
  int32_t dim = -1;
  for (const Expr::Op& op : size.ops()) {
    if (op.kind == Kind::kDim && dim < 0) {
      dim = static_cast<int32_t>(op.value);
    } else if (op.kind != Kind::kMul && (op.kind != Kind::kConstant || op.value == 0)) {
      return -1;
    }
  }
  return dim;
}

// What is assumed of a tensor's dims when it has elements.
Assumed not_empty(const TensorSpec& spec) {
  Assumed assumed;
  for (const Expr& size : spec.shape) {
    if (const int32_t dim = dim_of(size); dim >= 0) assumed.positive.push_back(dim);
  }
  return assumed;
}

// `bytes <= size of the buffer`: the bytes of an empty tensor, 0, always are.
void require_room(Prover* prover, Fact fact, const TensorSpec& spec) {
  fact.right = buffer_of(prover->program(), fact.buffer).bytes;
  fact.left = span_of(spec);
  if (prover->proves(fact, not_empty(spec))) return;
  fact.left = bytes_of(spec);
  prover->require(std::move(fact));
}

// A buffer is not larger than its input.
void require_input(Prover* prover, int32_t id, const TensorSpec& spec) {
  Fact fact;
  fact.rule = Rule::kInputSize;
  fact.buffer = id;
  fact.left = buffer_of(prover->program(), id).bytes;
  fact.right = span_of(spec);
  bool proved = prover->proves(fact, not_empty(spec));
  fact.right = Expr(0);
  for (const Expr& size : spec.shape) {
    if (!proved) break;
    if (size.is_constant() && size.constant() > 0) continue;
    Assumed assumed;
    assumed.zero = size.is_constant() ? -1 : dim_of(size);
    const bool never = !size.is_constant() && prover->least(size) > 0;
    proved = never || prover->proves(fact, assumed);
  }
  if (proved) return;
  fact.right = bytes_of(spec);
  prover->require(std::move(fact));
}

void require_buffer(Prover* prover, int32_t id) {
  const Buffer& buffer = buffer_of(prover->program(), id);
  Fact fact;
  fact.buffer = id;
  fact.right = buffer.bytes;
  prover->require(fact);
  if (buffer.storage == Storage::kInput) {
    require_input(prover, id, prover->plan().inputs[static_cast<size_t>(buffer.index)]);
  } else if (buffer.storage == Storage::kEntry) {
    fact.rule = Rule::kEntrySize;
    fact.left = buffer.offset == 0 ? buffer.bytes : buffer.bytes + Expr(buffer.offset);
    fact.right = Expr(static_cast<int64_t>(buffer.entry->bytes.size));
    prover->require(std::move(fact));
  }
}

// The last turn's slice ends within its whole; since no stride is negative, so do all others.
void require_slice(Prover* prover, int32_t id) {
  const Program& program = prover->program();
  const Buffer& slice = buffer_of(program, id);
  const Step& loop = program.steps[static_cast<size_t>(slice.loop)];
  Fact fact;
  fact.buffer = id;
  fact.guard = loop.count;
  fact.rule = Rule::kSliceStride;
  fact.right = slice.stride;
  prover->require(fact);
  fact.rule = Rule::kSliceEnd;
  fact.left = slice.stride * (loop.count + Expr(-1)) + slice.bytes;
  fact.right = buffer_of(program, slice.index).bytes;
  prover->require(std::move(fact));
}

void require_operand(Prover* prover, Fact fact, const TensorOperand& operand) {
  const Buffer& buffer = buffer_of(prover->program(), operand.buffer);
  fact.buffer = operand.buffer;
  fact.rule = Rule::kOperandShape;
  Expr bytes(buffer.dtype->size);
  for (const Expr& size : operand.shape) {
    fact.right = size;
    prover->require(fact);
    bytes = bytes * size;
  }
  fact.rule = Rule::kOperandSize;
  fact.left = std::move(bytes);
  fact.right = buffer.bytes;
  prover->require(std::move(fact));
}

void require_step(Prover* prover, int32_t at) {
  const Program& program = prover->program();
  const Step& step = program.steps[static_cast<size_t>(at)];
  Fact fact;
  fact.step = at;
  switch (step.kind) {
    case StepKind::kBranch:
    case StepKind::kWhile:
    case StepKind::kCheck:
    case StepKind::kSizes:
      fact.rule = Rule::kReadSize;
      fact.left = Expr(step.kind == StepKind::kSizes ? sizeof(int64_t) : 1);
      for (const int32_t id : step.buffers) {
        fact.buffer = id;
        fact.right = buffer_of(program, id).bytes;
        prover->require(fact);
      }
      break;
    case StepKind::kRepeat:
      fact.rule = Rule::kTurns;
      fact.right = step.count;
      prover->require(std::move(fact));
      break;
    case StepKind::kCopy:
      fact.rule = Rule::kCopySize;
      fact.relation = Relation::kEqual;
      fact.buffer = step.buffers[0];
      fact.left = buffer_of(program, step.buffers[0]).bytes;
      fact.right = buffer_of(program, step.buffers[1]).bytes;
      prover->require(std::move(fact));
      break;
    case StepKind::kCall:
      fact.item = 0;
      program.call_of(step).each_tensor([&](const TensorOperand& operand) {
        require_operand(prover, fact, operand);
        ++fact.item;
      });
      break;
    case StepKind::kLaunch:
      break;
  }
}

void require_updates(Prover* prover) {
  const Program& program = prover->program();
  const Plan& plan = prover->plan();
  for (size_t i = 0; i < program.updates.size(); ++i) {
    const Update& update = program.updates[i];
    const auto index = static_cast<size_t>(update.index);
    const Buffer& buffer = buffer_of(program, update.buffer);
    if (buffer.scope != 0) {
      fail(AOT_CORRUPT_PACKAGE, prover->where(), ".updates[", i, "]: the size of buffer '",
           buffer.name, "' is not known when the steps are done");
    }
    Fact fact;
    fact.rule = Rule::kUpdateSize;
    fact.item = static_cast<int32_t>(i);
    fact.buffer = update.buffer;
    if (update.input) {
      require_room(prover, std::move(fact), plan.inputs[index]);
    } else {
      fact.left = Expr(plan.states[index].bytes);
      fact.right = buffer.bytes;
      prover->require(std::move(fact));
    }
  }
}

}  // namespace

void require_memory(Prover* prover) {
  const Program& program = prover->program();
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    require_buffer(prover, id);
    if (program.buffers[i].storage == Storage::kSlice) require_slice(prover, id);
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    Fact fact;
    fact.rule = Rule::kOutputSize;
    fact.item = static_cast<int32_t>(i);
    fact.buffer = program.outputs[i];
    require_room(prover, std::move(fact), prover->plan().outputs[i]);
  }
  require_updates(prover);
  for (size_t i = 0; i < program.steps.size(); ++i) require_step(prover, static_cast<int32_t>(i));
}

void require_derived(Prover* prover, const Program& owner, size_t routine) {
  const Program& body = prover->program();
  for (const Derived& derived : owner.derived) {
    if (static_cast<size_t>(derived.routine) != routine) continue;
    Fact fact;
    fact.rule = Rule::kResultSize;
    fact.buffer = body.outputs[0];
    fact.left = Expr(static_cast<int64_t>(derived.entry->bytes.size));
    fact.right = buffer_of(body, fact.buffer).bytes;
    prover->require(std::move(fact));
  }
}

}  // namespace aot_rt
