#include "bound_program.h"

#include <algorithm>

namespace aot_rt {

BoundProgram::BoundProgram(const Plan& plan, const Program& program, std::vector<int64_t> dims,
                           uint8_t* states)
    : BoundSizes(plan, program, std::move(dims)),
      states_(states),
      entered_(program.scopes.size()),
      calls_(program) {
  lay_out();
}

// Everything has its slot from the beginning, also what is measured later.
void BoundProgram::lay_out() {
  const std::vector<Buffer>& buffers = program().buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].storage == Storage::kSlice) slices_.push_back(static_cast<int32_t>(i));
  }
  places_.resize(slice_place(slices_.size()));
  addresses_.assign(places_.size(), nullptr);
  launch_of_.assign(program().steps.size(), -1);
  size_t slots = buffers.size();
  size_t sizes = 0;
  for (size_t i = 0; i < program().steps.size(); ++i) {
    const Step& step = program().steps[i];
    if (step.kind != StepKind::kLaunch) continue;
    launch_of_[i] = static_cast<int32_t>(steps_.size());
    steps_.push_back(static_cast<int32_t>(i));
    first_slot_.push_back(slots);
    first_size_.push_back(sizes);
    slots += step.buffers.size();
    sizes += step.sizes.size();
  }
  slots_.assign(slots, nullptr);
  sizes_.assign(sizes, 0);
  for (size_t i = 0; i < buffers.size(); ++i) {
    place_buffer(static_cast<int32_t>(i), static_cast<uint32_t>(i), -1);
  }
  for (size_t launch = 0; launch < steps_.size(); ++launch) {
    size_t slot = first_slot_[launch];
    for (const int32_t buffer : program().steps[static_cast<size_t>(steps_[launch])].buffers) {
      place_buffer(buffer, static_cast<uint32_t>(slot++), static_cast<int32_t>(launch));
    }
  }
}

void BoundProgram::place_buffer(int32_t buffer, uint32_t slot, int32_t launch) {
  const Buffer& described = program().buffers[static_cast<size_t>(buffer)];
  const auto index = static_cast<size_t>(described.index);
  switch (described.storage) {
    case Storage::kInput:
      places_[index].push_back({slot, launch, -1});
      break;
    case Storage::kOutput:
      places_[inputs().size() + index].push_back({slot, launch, -1});
      break;
    case Storage::kArena:
      places_[arena_place(static_cast<size_t>(described.scope))].push_back({slot, launch, buffer});
      break;
    case Storage::kState:
      slots_[slot] = states_ + plan().states[index].offset;
      break;
    case Storage::kEntry:
      entries_.emplace_back(slot, buffer);
      break;
    case Storage::kSlice: {
      const auto found = std::lower_bound(slices_.begin(), slices_.end(), buffer);
      places_[slice_place(static_cast<size_t>(found - slices_.begin()))].push_back(
          {slot, launch, -1});
      break;
    }
  }
}

void BoundProgram::bind_launches(int32_t scope) {
  for (const int32_t step : program().scopes[static_cast<size_t>(scope)].launches) {
    const Step& described = program().steps[static_cast<size_t>(step)];
    const int32_t launch = launch_of(step);
    int64_t* size = sizes_of(launch);
    for (const Expr& value : described.sizes) *size++ = value.eval(dims().data());
    bind_launch(launch, described);
  }
}

void BoundProgram::forget() {
  turns_.clear();
  forget_sizes();
}

void BoundProgram::enter(int32_t scope, const std::vector<int64_t>& values) {
  enter_sizes(scope, values);
  const auto self = static_cast<size_t>(scope);
  if (entered_[self] != values) {
    // What is nested in it may use its dims: it is bound anew, too, when it is entered.
    for (size_t i = self; i < entered_.size(); ++i) entered_[i].clear();
    calls_.forget();
    addresses_[arena_place(self)] = nullptr;  // temporaries lie elsewhere in it
    sizes_changed(scope);
    bind_launches(scope);
    entered_[self] = values;
  }
  // Slices of what is only now known, in loops around this.
  for (const auto& [step, turn] : turns_) set_turn(step, turn);
}

int32_t BoundProgram::first_launch(int32_t step) const {
  const auto found = std::lower_bound(steps_.begin(), steps_.end(), step);
  return static_cast<int32_t>(found - steps_.begin());
}

void BoundProgram::set_turn(int32_t step, int64_t turn) {
  const auto same = [step](const auto& entry) { return entry.first == step; };
  const auto known = std::find_if(turns_.begin(), turns_.end(), same);
  if (known == turns_.end()) {
    turns_.emplace_back(step, turn);
  } else {
    known->second = turn;
  }
  for (size_t i = 0; i < slices_.size(); ++i) {
    if (program().buffers[static_cast<size_t>(slices_[i])].loop == step) set_slice(i, turn);
  }
}

void BoundProgram::set_slice(size_t slice, int64_t turn) {
  const Buffer& buffer = program().buffers[static_cast<size_t>(slices_[slice])];
  if (!knows(buffer.stride)) return;
  auto* const whole = static_cast<uint8_t*>(address(buffer.index));
  const int64_t offset = whole == nullptr ? 0 : turn * buffer.stride.eval(dims().data());
  set(slice_place(slice), whole + offset);
}

void BoundProgram::set_weights(const Container& container, uint64_t generation,
                               const Placement* weights) {
  weights_generation_ = generation;
  for (const auto& [slot, id] : entries_) {
    const Buffer& buffer = program().buffers[static_cast<size_t>(id)];
    const uint8_t* data = entry_bytes(*buffer.entry, container, weights);
    slots_[slot] = const_cast<uint8_t*>(data) + buffer.offset;  // kernels do not write entries
  }
}

BoundCall& BoundProgram::call_of(const Step& step, DLDevice device) {
  return calls_.of(program(), step, *this, device);
}

void BoundProgram::set(size_t which, void* address) {
  if (addresses_[which] == address) return;
  addresses_[which] = address;
  auto* const base = static_cast<uint8_t*>(address);
  for (const Place& place : places_[which]) {
    const int64_t offset = place.buffer < 0 ? 0 : arena_offset(place.buffer);
    if (offset >= 0) slots_[place.slot] = base + offset;  // else of a size that is not known
  }
}

size_t BoundProgram::footprint() const {
  size_t bytes = sizeof(*this) + (slots_.size() + sizes_.size() + addresses_.size()) * sizeof(void*);
  bytes += program().buffers.size() * 2 * sizeof(int64_t) + steps_.size() * 4 * sizeof(size_t);
  for (const Places& places : places_) bytes += sizeof(places) + places.size() * sizeof(Place);
  return bytes + (inputs().size() + outputs().size()) * sizeof(BoundTensor);
}

}  // namespace aot_rt
