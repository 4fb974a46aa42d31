#include "cuda/bound_launches.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "error.h"

namespace aot_rt::cuda {
namespace {

constexpr int64_t kPointerAlignment = 16;  // what kernels rely on
constexpr size_t kMaxVariants = 4;         // graphs for the addresses of one set of sizes
constexpr int64_t kPatience = 4;           // patches for each graph before there is another
constexpr uint64_t kNoAddress = ~uint64_t{0};
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

std::vector<int32_t> slices_in(const Program& program) {
  std::vector<int32_t> found;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].storage == Storage::kSlice) found.push_back(static_cast<int32_t>(i));
  }
  return found;
}

int64_t scratch_of(const Kernel& kernel, const Launch& launch) {
  int64_t bytes = kernel.scratch;
  for (const unsigned blocks : launch.grid) {
    if (__builtin_mul_overflow(bytes, int64_t{blocks}, &bytes)) {
      fail(AOT_SHAPE_MISMATCH, "sizes are too large: scratch of kernel '", kernel.name, "'");
    }
  }
  return bytes;
}

}  // namespace

BoundLaunches::BoundLaunches(const Plan& plan, const Program& program, DeviceProgram& code,
                             std::vector<int64_t> dims, uint8_t* states, int32_t* fault_words)
    : BoundSizes(plan, program, std::move(dims)),
      program_(program),
      states_(states),
      slices_(slices_in(program)),
      places_(plan.inputs.size() + plan.outputs.size() + program.scopes.size() + 1 +
              slices_.size()),
      addresses_(places_.size(), 0),
      calls_(program) {
  bind_steps(plan, code, fault_words);
}

void BoundLaunches::bind_steps(const Plan& plan, DeviceProgram& code, int32_t* fault_words) {
  const Program& program = program_;
  const auto buffers = static_cast<int32_t>(program.buffers.size());
  values_.assign(program.buffers.size(), 0);
  for (int32_t i = 0; i < buffers; ++i) bind_buffer(plan, i, static_cast<uint32_t>(i), -1);
  std::vector<size_t> first;  // parameter of each launch
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (!knows(program, step)) continue;
    const Kernel& kernel = program.kernel_of(step);
    Launch launch;
    if (!bind_grid(step, kernel.name, dims().data(), &launch)) continue;
    launch.function = code.kernel(step.kernel);
    launch.threads = static_cast<unsigned>(kernel.threads);
    launch.shared = static_cast<unsigned>(kernel.shared);
    launch.step = static_cast<int32_t>(i);
    launch.waits = kernel.waits;
    const auto id = static_cast<int32_t>(launches_.size());
    first.push_back(values_.size());
    for (const int32_t buffer : step.buffers) {
      values_.push_back(0);
      bind_buffer(plan, buffer, static_cast<uint32_t>(values_.size() - 1), id);
    }
    if (kernel.faults) values_.push_back(reinterpret_cast<uint64_t>(fault_words + i));
    for (const Expr& size : step.sizes) {
      values_.push_back(static_cast<uint64_t>(size.eval(dims().data())));
    }
    values_.push_back(0);  // scratch
    if (const int64_t bytes = scratch_of(kernel, launch); bytes > 0) {
      // Launches follow one another: one region, aligned for all, serves them all.
      places_[scratch_place()].push_back({static_cast<uint32_t>(values_.size() - 1), id, 0});
      scratch_bytes_ = std::max(scratch_bytes_, bytes);
    }
    values_.push_back(0);  // the profiler's scratch: none
    launches_.push_back(launch);
  }
  for (uint64_t& value : values_) parameters_.push_back(&value);
  for (size_t i = 0; i < launches_.size(); ++i) {
    launches_[i].parameters = parameters_.data() + first[i];
  }
}

void BoundLaunches::bind_buffer(const Plan& plan, int32_t buffer, uint32_t value, int32_t launch) {
  const Buffer& described = program_.buffers[static_cast<size_t>(buffer)];
  const auto index = static_cast<size_t>(described.index);
  switch (described.storage) {
    case Storage::kInput:
      places_[index].push_back({value, launch, 0});
      break;
    case Storage::kOutput:
      places_[inputs().size() + index].push_back({value, launch, 0});
      break;
    case Storage::kArena:
      if (arena_offset(buffer) < 0) break;  // of a size that is not known yet
      places_[inputs().size() + outputs().size() + static_cast<size_t>(described.scope)].push_back(
          {value, launch, arena_offset(buffer)});
      break;
    case Storage::kState:
      values_[value] = reinterpret_cast<uint64_t>(states_ + plan.states[index].offset);
      break;
    case Storage::kEntry:
      if (described.offset % kPointerAlignment != 0) {
        fail(AOT_CORRUPT_PACKAGE, "plan: buffer '", described.name, "' begins at byte ",
             described.offset, " of its entry; a GPU needs multiples of ", kPointerAlignment);
      }
      entries_.emplace_back(value, buffer);
      break;
    case Storage::kSlice:
      places_[place_of_slice(buffer)].push_back({value, launch, 0});
      break;
  }
}

size_t BoundLaunches::place_of_slice(int32_t buffer) const {
  const auto found = std::lower_bound(slices_.begin(), slices_.end(), buffer);
  return scratch_place() + 1 + static_cast<size_t>(found - slices_.begin());
}

void BoundLaunches::set_turn(int32_t step, int64_t turn) {
  for (const int32_t slice : slices_) {
    const Buffer& buffer = program_.buffers[static_cast<size_t>(slice)];
    if (buffer.loop != step || !knows(buffer.stride)) continue;
    const int64_t offset = turn * buffer.stride.eval(dims().data());
    set(place_of_slice(slice), static_cast<uint8_t*>(address(buffer.index)) + offset);
  }
}

void BoundLaunches::set_weights(const Container& container, uint64_t generation,
                                const Placement* weights) {
  weights_generation_ = generation;
  for (const auto& [value, buffer] : entries_) {
    const Buffer& described = program_.buffers[static_cast<size_t>(buffer)];
    const uint8_t* data = entry_bytes(*described.entry, container, weights);
    values_[value] = reinterpret_cast<uint64_t>(data) + static_cast<uint64_t>(described.offset);
  }
  for (Segment& segment : segments_) segment.variants.clear();
}

void BoundLaunches::set(size_t which, void* address) {
  const Places& places = places_[which];
  const auto value = reinterpret_cast<uint64_t>(address);
  if (places.empty() || addresses_[which] == value) return;
  addresses_[which] = value;
  for (const Place& place : places) {
    values_[place.value] = value + static_cast<uint64_t>(place.offset);
  }
}

Segment& BoundLaunches::segment(int32_t begin, int32_t end) {
  const auto same = [begin](const Segment& segment) { return segment.begin == begin; };
  const auto known = std::find_if(segments_.begin(), segments_.end(), same);
  if (known != segments_.end()) return *known;
  Segment segment;
  segment.begin = begin;
  const auto step_less = [](const Launch& launch, int32_t step) { return launch.step < step; };
  const auto first = std::lower_bound(launches_.begin(), launches_.end(), begin, step_less);
  const auto last = std::lower_bound(first, launches_.end(), end, step_less);
  segment.launches = {launches_.data() + (first - launches_.begin()),
                      static_cast<size_t>(last - first)};
  for (const Places& places : places_) {
    segment.uses.push_back(std::any_of(places.begin(), places.end(), [&](const Place& place) {
      return place.launch >= first - launches_.begin() && place.launch < last - launches_.begin();
    }));
  }
  segments_.push_back(std::move(segment));
  return segments_.back();
}

int64_t BoundLaunches::distance(const Segment& segment, const Segment::Variant& variant) const {
  int64_t count = 0;
  for (size_t i = 0; i < addresses_.size(); ++i) {
    count += segment.uses[i] && variant.addresses[i] != addresses_[i];
  }
  return count;
}

void BoundLaunches::patch(Segment* segment, Segment::Variant* variant) {
  const int64_t first = segment->launches.first - launches_.data();
  const int64_t last = first + static_cast<int64_t>(segment->launches.count);
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (!segment->uses[i] || variant->addresses[i] == addresses_[i]) continue;
    for (const Place& place : places_[i]) {
      if (place.launch < first || place.launch >= last) continue;
      launches_[static_cast<size_t>(place.launch)].changed = true;
    }
  }
  // Should the driver refuse, nothing is known of the graph.
  std::fill(variant->addresses.begin(), variant->addresses.end(), kNoAddress);
  variant->graph->update(segment->launches);
  variant->addresses = addresses_;
  ++segment->patches;
}

const Graph& BoundLaunches::graph(const Device& device, Segment* segment) {
  std::vector<Segment::Variant>& variants = segment->variants;
  size_t best = 0;
  for (size_t i = 0; i < variants.size(); ++i) {
    const int64_t changes = distance(*segment, variants[i]);
    if (changes == 0) return *variants[i].graph;
    if (changes < distance(*segment, variants[best])) best = i;
  }
  const auto known = static_cast<int64_t>(variants.size());
  if (known == 0 || (variants.size() < kMaxVariants && segment->patches >= kPatience * known)) {
    variants.push_back({std::make_unique<Graph>(device, segment->launches), addresses_});
    return *variants.back().graph;
  }
  patch(segment, &variants[best]);
  return *variants[best].graph;
}

}  // namespace aot_rt::cuda
