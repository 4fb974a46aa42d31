#include "cuda/bound_launches.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "error.h"

namespace aot_rt::cuda {
namespace {

constexpr int64_t kPointerAlignment = 16;  // what kernels rely on
constexpr std::array<int64_t, 3> kMostBlocks = {std::numeric_limits<int32_t>::max(), 65535, 65535};

// The grid for these sizes; false when it is empty.
bool bind_grid(const Step& step, const std::string& kernel, const int64_t* dims, Launch* launch) {
  for (size_t i = 0; i < step.grid.size(); ++i) {
    const int64_t blocks = evaluate_count(step.grid[i], dims, "grid of step", kernel);
    if (blocks == 0) return false;
    if (blocks > kMostBlocks[i]) {
      fail(AOT_SHAPE_MISMATCH, "these sizes are too large for a GPU: kernel '", kernel, "' has ",
           blocks, " blocks along axis ", i, ", at most ", kMostBlocks[i], " are possible");
    }
    launch->grid[i] = static_cast<unsigned>(blocks);
  }
  return true;
}

int64_t scratch_bytes(const Kernel& kernel, const Launch& launch) {
  int64_t bytes = kernel.scratch;
  for (const unsigned blocks : launch.grid) {
    if (__builtin_mul_overflow(bytes, int64_t{blocks}, &bytes)) {
      fail(AOT_SHAPE_MISMATCH, "sizes are too large: scratch of kernel '", kernel.name, "'");
    }
  }
  return bytes;
}

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

BoundLaunches::BoundLaunches(const Plan& plan, DeviceProgram& code, std::vector<int64_t> dims,
                             int32_t* fault_words)
    : BoundSizes(plan, code.program(), std::move(dims)),
      inputs_places_(plan.inputs.size()),
      output_places_(plan.outputs.size()),
      memory_bytes_(arena_bytes()) {
  bind_steps(code, fault_words);
}

void BoundLaunches::bind_steps(DeviceProgram& code, int32_t* fault_words) {
  const Program& program = code.program();
  const auto buffers = static_cast<int32_t>(program.buffers.size());
  values_.assign(program.buffers.size(), 0);
  for (int32_t i = 0; i < buffers; ++i) bind_buffer(code, i, static_cast<uint32_t>(i), -1);
  std::vector<size_t> first;  // parameter of each launch
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const Kernel& kernel = program.kernel_of(step);
    Launch launch;
    if (!bind_grid(step, kernel.name, dims().data(), &launch)) continue;
    launch.function = code.kernel(step.kernel);
    launch.threads = static_cast<unsigned>(kernel.threads);
    launch.shared = static_cast<unsigned>(kernel.shared);
    launch.step = static_cast<int32_t>(i);
    const auto id = static_cast<int32_t>(launches_.size());
    first.push_back(values_.size());
    for (const int32_t buffer : step.buffers) {
      values_.push_back(0);
      bind_buffer(code, buffer, static_cast<uint32_t>(values_.size() - 1), id);
    }
    if (kernel.faults) values_.push_back(reinterpret_cast<uint64_t>(fault_words + i));
    for (const Expr& size : step.sizes) {
      values_.push_back(static_cast<uint64_t>(size.eval(dims().data())));
    }
    values_.push_back(0);  // scratch
    if (const int64_t bytes = scratch_bytes(kernel, launch); bytes > 0) {
      // Launches follow one another: one region serves them all.
      const int64_t offset =
          round_up(arena_bytes(), std::max<int64_t>(kernel.scratch_alignment, kPointerAlignment));
      memory_places_.push_back({static_cast<uint32_t>(values_.size() - 1), id, offset});
      memory_bytes_ = std::max(memory_bytes_, offset + bytes);
    }
    values_.push_back(0);  // the profiler's scratch: none
    launches_.push_back(launch);
  }
  for (uint64_t& value : values_) parameters_.push_back(&value);
  for (size_t i = 0; i < launches_.size(); ++i) {
    launches_[i].parameters = parameters_.data() + first[i];
  }
}

void BoundLaunches::bind_buffer(DeviceProgram& code, int32_t buffer, uint32_t value,
                                int32_t launch) {
  const Buffer& described = code.program().buffers[static_cast<size_t>(buffer)];
  const auto index = static_cast<size_t>(described.index);
  const Place place{value, launch, arena_offset(buffer)};
  switch (described.storage) {
    case Storage::kInput:
      inputs_places_[index].push_back(place);
      break;
    case Storage::kOutput:
      output_places_[index].push_back(place);
      break;
    case Storage::kArena:
      memory_places_.push_back(place);
      break;
    case Storage::kEntry:
      if (described.offset % kPointerAlignment != 0) {
        fail(AOT_CORRUPT_PACKAGE, "plan: buffer '", described.name, "' begins at byte ",
             described.offset, " of its entry; a GPU needs multiples of ", kPointerAlignment);
      }
      values_[value] = reinterpret_cast<uint64_t>(code.weight(described));
      break;
  }
}

void BoundLaunches::set(const Places& places, void* address) {
  const auto value = reinterpret_cast<uint64_t>(address);
  // All places of a buffer hold the same value.
  if (places.empty() || values_[places.front().value] == value) return;
  for (const Place& place : places) write(place, value);
}

void BoundLaunches::set_memory(uint64_t generation, uint8_t* memory) {
  if (generation == generation_) return;
  generation_ = generation;
  for (const Place& place : memory_places_) {
    write(place, reinterpret_cast<uint64_t>(memory + place.offset));
  }
}

Graph& BoundLaunches::graph(const Device& device) {
  if (graph_ == nullptr) {
    graph_ = std::make_unique<Graph>(device, launches_);
    for (Launch& launch : launches_) launch.changed = false;
  } else {
    graph_->update(&launches_);
  }
  return *graph_;
}

}  // namespace aot_rt::cuda
