#include "flow_runner.h"

#include <string>

#include "error.h"

namespace aot_rt {

void FlowRunner::run_steps(int32_t begin, int32_t end) {
  for (int32_t at = begin; at < end;) {
    const Step& step = program_.steps[static_cast<size_t>(at)];
    if (step.kind == StepKind::kLaunch) {
      at = launch(at, end);
      continue;
    }
    run_control(step, at);
    at += 1 + step.parts[0] + step.parts[1];
  }
}

void FlowRunner::run_control(const Step& step, int32_t at) {
  if (step.kind == StepKind::kCall) return call(at);
  const bool copies = step.kind == StepKind::kCopy;
  TraceSpan traced(trace_, copies ? AOT_TRACE_COPY : AOT_TRACE_CONTROL, at, nullptr);
  switch (step.kind) {
    case StepKind::kBranch:
      return branch(step, at + 1);
    case StepKind::kWhile:
      return repeat_while(step, at + 1);
    case StepKind::kRepeat:
      return repeat(step, at);
    case StepKind::kCopy:
      return copy(step, &traced);
    case StepKind::kSizes:
      return read_sizes(step, at + 1);
    case StepKind::kCheck:
      return check(step);
    case StepKind::kLaunch:
    case StepKind::kCall:
      return;  // not control steps
  }
}

// All launches in a row; gives the step behind them.
int32_t FlowRunner::launch(int32_t begin, int32_t end) {
  int32_t behind = begin + 1;
  while (behind < end && program_.steps[static_cast<size_t>(behind)].kind == StepKind::kLaunch) {
    ++behind;
  }
  host_.launch_steps(begin, behind);
  return behind;
}

void FlowRunner::branch(const Step& step, int32_t first) {
  const int32_t second = first + step.parts[0];
  if (holds(step)) {
    run_steps(first, second);
  } else {
    run_steps(second, second + step.parts[1]);
  }
}

void FlowRunner::repeat_while(const Step& step, int32_t first) {
  const int32_t body = first + step.parts[0];
  while (true) {
    host_.count_turn();
    run_steps(first, body);
    if (!holds(step)) return;
    run_steps(body, body + step.parts[1]);
  }
}

void FlowRunner::repeat(const Step& step, int32_t self) {
  const int64_t count =
      evaluate_count(step.count, host_.sizes().dims().data(), "turns of step", "repeat");
  if (count > 0) check_slices(self, count);
  for (int64_t turn = 0; turn < count; ++turn) {
    host_.count_turn();
    host_.begin_turn(self, turn);
    run_steps(self + 1, self + 1 + step.parts[0]);
  }
}

// The last turn's slices end within what they are parts of; so all others do.
void FlowRunner::check_slices(int32_t self, int64_t count) const {
  const BoundSizes& sizes = host_.sizes();
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const Buffer& buffer = program_.buffers[i];
    if (buffer.storage != Storage::kSlice || buffer.loop != self || !sizes.knows(buffer.bytes)) {
      continue;
    }
    const int64_t stride =
        evaluate_count(buffer.stride, sizes.dims().data(), "stride of slice", buffer.name);
    int64_t end = 0;
    if (__builtin_mul_overflow(stride, count - 1, &end) ||
        __builtin_add_overflow(end, sizes.buffer_bytes(static_cast<int32_t>(i)), &end) ||
        end > sizes.buffer_bytes(buffer.index)) {
      fail(AOT_CORRUPT_PACKAGE, "plan: slice '", buffer.name,
           "' reaches beyond what it is part of");
    }
  }
}

void FlowRunner::copy(const Step& step, TraceSpan* traced) {
  const int64_t bytes = host_.sizes().buffer_bytes(step.buffers[0]);
  traced->set_what("step");
  traced->set_bytes(static_cast<size_t>(bytes));
  if (bytes != host_.sizes().buffer_bytes(step.buffers[1])) {
    fail(AOT_CORRUPT_PACKAGE, "plan: a step copies between buffers of different sizes");
  }
  if (bytes > 0) host_.copy_buffer(step.buffers[0], step.buffers[1], static_cast<size_t>(bytes));
}

void FlowRunner::read_sizes(const Step& step, int32_t first) {
  values_.clear();
  for (size_t i = 0; i < step.dims.size(); ++i) {
    const Dim& dim = plan_.dims[static_cast<size_t>(step.dims[i])];
    const int64_t value = size_in(step.buffers[i]);
    if (value < dim.range.min || value > dim.range.max || value % dim.multiple_of != 0) {
      const std::string most =
          dim.range.max == kUnbounded ? " or more" : cat(" to ", dim.range.max);
      fail_at(step, AOT_SHAPE_MISMATCH,
              cat("the size '", dim.label, "' that the model computes is ", value, ", allowed ",
                  dim.range.min, most));
    }
    values_.push_back(value);
  }
  host_.enter(step.scope, values_);
  run_steps(first, first + step.parts[0]);
  host_.leave(step.scope);
}

void FlowRunner::check(const Step& step) {
  if (!holds(step)) {
    fail_at(step, AOT_INVALID_ARGUMENT, cat("an assertion of the model fails: ", step.message));
  }
}

void FlowRunner::call(int32_t at) {
  try {
    host_.call_operator(at);
  } catch (const Error& error) {
    if (error.code() != AOT_OPERATOR_FAILED) throw;
    fail_at(program_.steps[static_cast<size_t>(at)], error.code(), error.what());
  }
}

bool FlowRunner::holds(const Step& step) {
  uint8_t value = 0;
  if (host_.sizes().buffer_bytes(step.buffers[0]) < 1) {
    fail(AOT_CORRUPT_PACKAGE, "plan: a step reads a bool from an empty buffer");
  }
  host_.read_buffer(step.buffers[0], &value, sizeof(value));
  return value != 0;
}

int64_t FlowRunner::size_in(int32_t buffer) {
  int64_t value = 0;
  if (host_.sizes().buffer_bytes(buffer) < static_cast<int64_t>(sizeof(value))) {
    fail(AOT_CORRUPT_PACKAGE, "plan: a step reads a size from a buffer that is too small");
  }
  host_.read_buffer(buffer, &value, sizeof(value));
  return value;
}

void FlowRunner::fail_at(const Step& step, aot_code code, const std::string& message) const {
  const std::string origin = plan_.origin_of(step);
  throw Error(code, origin.empty() ? message : cat(message, ", at ", origin), origin);
}

}  // namespace aot_rt
