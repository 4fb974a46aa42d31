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
                     std::vector<int64_t> dims, int32_t threads, uint8_t* states, int32_t* fault)
    : BoundSizes(plan, program, std::move(dims)),
      input_slots_(plan.inputs.size()),
      output_slots_(plan.outputs.size()),
      calls_(program) {
  bind_slots(plan, program, bind_steps(program, library, threads, fault), states);
}

// Gives the buffer of each slot.
std::vector<int32_t> BoundPlan::bind_steps(const Program& program, const KernelLibrary& library,
                                           int32_t threads, int32_t* fault) {
  std::vector<int32_t> buffer_of_slot;  // slots 0 … buffers-1 stand for the buffers themselves
  buffer_of_slot.reserve(program.buffers.size());
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    buffer_of_slot.push_back(static_cast<int32_t>(i));
  }
  std::vector<std::pair<size_t, size_t>> first;  // per bound step: first slot, first size
  position_.assign(program.steps.size(), -1);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (!knows(program, step)) continue;
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
    position_[i] = static_cast<int32_t>(steps_.size());
    steps_.push_back(bound);
  }
  slots_.assign(buffer_of_slot.size(), nullptr);
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].args.buffers = slots_.data() + first[i].first;
    steps_[i].args.sizes = sizes_.data() + first[i].second;
  }
  return buffer_of_slot;
}

void BoundPlan::bind_slots(const Plan& plan, const Program& program,
                           const std::vector<int32_t>& buffer_of_slot, uint8_t* states) {
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
        entry_slots_.emplace_back(number, buffer_of_slot[slot]);
        break;
      case Storage::kState:
        slots_[slot] = states + plan.states[static_cast<size_t>(buffer.index)].offset;
        break;
      case Storage::kArena:
        arena_places_.push_back({number, buffer.scope, arena_offset(static_cast<int32_t>(id))});
        break;
      case Storage::kSlice:
        slice_place(static_cast<int32_t>(id), buffer.loop).push_back(number);
        break;
    }
  }
}

void BoundPlan::set_weights(const Program& program, const Container& container, uint64_t generation,
                            const Placement* weights) {
  if (generation == weights_generation_) return;
  weights_generation_ = generation;
  for (const auto& [slot, id] : entry_slots_) {
    const Buffer& buffer = program.buffers[static_cast<size_t>(id)];
    const uint8_t* data = entry_bytes(*buffer.entry, container, weights);
    slots_[slot] = const_cast<uint8_t*>(data) + buffer.offset;
  }
}

BoundPlan::Slots& BoundPlan::slice_place(int32_t buffer, int32_t loop) {
  for (SlicePlace& place : slices_) {
    if (place.buffer == buffer) return place.slots;
  }
  slices_.push_back({buffer, loop, {}});
  return slices_.back().slots;
}

void BoundPlan::set_turn(const Program& program, int32_t step, int64_t turn) {
  for (const SlicePlace& slice : slices_) {
    const Buffer& buffer = program.buffers[static_cast<size_t>(slice.buffer)];
    if (slice.loop != step || !knows(buffer.stride)) continue;
    const int64_t offset = turn * buffer.stride.eval(dims().data());
    set(slice.slots, static_cast<uint8_t*>(address(buffer.index)) + offset);
  }
}

void BoundPlan::set_memory(uint64_t generation, const std::vector<Block>& arenas,
                           uint8_t* scratch) {
  if (generation == generation_) return;
  generation_ = generation;
  for (const ArenaPlace& place : arena_places_) {
    if (place.offset < 0) continue;  // of a size that is not known yet
    slots_[place.slot] = arenas[static_cast<size_t>(place.scope)].data() + place.offset;
  }
  for (BoundStep& step : steps_) step.args.scratch = scratch;
}

void* BoundPlan::address(int32_t buffer) const { return slots_[static_cast<size_t>(buffer)]; }

}  // namespace aot_rt
