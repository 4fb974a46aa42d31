#include "cpu/bound_plan.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace aot_rt {
namespace {

// More chunks than threads, so that a thread that is slowed down by others does fewer of them.
constexpr int64_t kChunksPerThread = 4;

int64_t count_chunks(int64_t work, int64_t grain, int32_t threads) {
  if (threads <= 1) return 1;
  return std::max<int64_t>(1, std::min(work / grain, threads * kChunksPerThread));
}

}  // namespace

BoundPlan::BoundPlan(const Plan& plan, const Program& program, const KernelLibrary& library,
                     std::vector<int64_t> dims, int32_t threads, int32_t* fault)
    : BoundSizes(plan, program, std::move(dims)),
      input_slots_(plan.inputs.size()),
      output_slots_(plan.outputs.size()) {
  bind_steps(program, library, threads, fault);
}

void BoundPlan::bind_steps(const Program& program, const KernelLibrary& library, int32_t threads,
                           int32_t* fault) {
  std::vector<int32_t> buffer_of_slot;  // slots 0 … buffers-1 stand for the buffers themselves
  buffer_of_slot.reserve(program.buffers.size());
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    buffer_of_slot.push_back(static_cast<int32_t>(i));
  }
  std::vector<std::pair<size_t, size_t>> first;  // per bound step: first slot, first size
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const std::string& kernel = program.kernel_of(step).name;
    BoundStep bound;
    bound.work = evaluate_count(step.work, dims().data(), "work of step", kernel);
    if (bound.work == 0) continue;
    bound.run = library.kernel(step.kernel);
    bound.chunks = count_chunks(bound.work, step.grain, threads);
    bound.step = static_cast<int32_t>(i);
    bound.args.fault = fault;
    scratch_bytes_ = std::max(
        scratch_bytes_, evaluate_count(step.scratch, dims().data(), "scratch of step", kernel));
    first.emplace_back(buffer_of_slot.size(), sizes_.size());
    buffer_of_slot.insert(buffer_of_slot.end(), step.buffers.begin(), step.buffers.end());
    for (const Expr& size : step.sizes) sizes_.push_back(size.eval(dims().data()));
    steps_.push_back(bound);
  }
  slots_.assign(buffer_of_slot.size(), nullptr);
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].args.buffers = slots_.data() + first[i].first;
    steps_[i].args.sizes = sizes_.data() + first[i].second;
  }
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const auto id = static_cast<size_t>(buffer_of_slot[slot]);
    const Buffer& buffer = program.buffers[id];
    const auto number = static_cast<uint32_t>(slot);
    switch (buffer.storage) {
      case Storage::kInput:
        input_slots_[static_cast<size_t>(buffer.index)].push_back(number);
        break;
      case Storage::kOutput:
        output_slots_[static_cast<size_t>(buffer.index)].push_back(number);
        break;
      case Storage::kEntry:
        slots_[slot] = const_cast<uint8_t*>(buffer.entry->bytes.data) + buffer.offset;
        break;
      case Storage::kArena:
        arena_slots_.push_back(number);
        arena_offsets_.push_back(arena_offset(static_cast<int32_t>(id)));
        break;
    }
  }
}

void BoundPlan::set_memory(uint64_t generation, uint8_t* arena, uint8_t* scratch) {
  if (generation == generation_) return;
  generation_ = generation;
  for (size_t i = 0; i < arena_slots_.size(); ++i) {
    slots_[arena_slots_[i]] = arena + arena_offsets_[i];
  }
  for (BoundStep& step : steps_) step.args.scratch = scratch;
}

void* BoundPlan::address(int32_t buffer) const { return slots_[static_cast<size_t>(buffer)]; }

}  // namespace aot_rt
