#include "cuda/bound_launches.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "error.h"

namespace aot_rt::cuda {
namespace {

constexpr int64_t kPointerAlignment = 16;  // what kernels rely on
constexpr size_t kMaxVariants = 4;         // graphs for the addresses of one set of sizes
constexpr int64_t kPatience = 4;           // patches for each graph before there is another
constexpr size_t kGraphNode = 1024;        // bytes of the host for a launch in a graph, about
void* const kNoAddress = reinterpret_cast<void*>(~uintptr_t{0});
constexpr std::array<int64_t, 3> kMostBlocks = {std::numeric_limits<int32_t>::max(), 65535, 65535};

// The grid for these sizes; all zeros when it is empty.
std::array<unsigned, 3> bind_grid(const Step& step, const std::string& kernel,
                                  const int64_t* dims) {
  std::array<unsigned, 3> grid{};
  for (size_t i = 0; i < step.grid.size(); ++i) {
    const int64_t blocks = evaluate_count(step.grid[i], dims, "grid of step", kernel);
    if (blocks == 0) return {};
    if (blocks > kMostBlocks[i]) {
      fail(AOT_SHAPE_MISMATCH, "these sizes are too large for a GPU: kernel '", kernel, "' has ",
           blocks, " blocks along axis ", i, ", at most ", kMostBlocks[i], " are possible");
    }
    grid[i] = static_cast<unsigned>(blocks);
  }
  return grid;
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
    : BoundProgram(plan, program, std::move(dims), states), code_(code), launches_(launch_count()) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.storage == Storage::kEntry && buffer.offset % kPointerAlignment != 0) {
      fail(AOT_CORRUPT_PACKAGE, "plan: buffer '", buffer.name, "' begins at byte ", buffer.offset,
           " of its entry; a GPU needs multiples of ", kPointerAlignment);
    }
  }
  lay_out_parameters(fault_words);
  bind_launches();
}

// In the order of docs/format.md: buffers, the fault word, sizes, scratch, the profiler's scratch.
void BoundLaunches::lay_out_parameters(int32_t* fault_words) {
  std::vector<size_t> first;
  faults_.resize(launch_count());
  for (size_t i = 0; i < launch_count(); ++i) {
    const auto launch = static_cast<int32_t>(i);
    const Step& step = program().steps[static_cast<size_t>(step_of(launch))];
    const Kernel& kernel = program().kernel_of(step);
    if (kernel.scratch > 0) alignment_ = std::max(alignment_, kernel.scratch_alignment);
    faults_[i] = fault_words + step_of(launch);
    first.push_back(parameters_.size());
    for (size_t k = 0; k < step.buffers.size(); ++k) parameters_.push_back(buffers_of(launch) + k);
    if (kernel.faults) parameters_.push_back(&faults_[i]);
    for (size_t k = 0; k < step.sizes.size(); ++k) parameters_.push_back(sizes_of(launch) + k);
    parameters_.push_back(kernel.scratch > 0 ? &scratch_ : &nothing_);
    parameters_.push_back(&nothing_);
    launches_[i].step = step_of(launch);
    launches_[i].threads = static_cast<unsigned>(kernel.threads);
    launches_[i].shared = static_cast<unsigned>(kernel.shared);
    launches_[i].waits = kernel.waits;
    launches_[i].scratch = kernel.scratch > 0;
  }
  for (size_t i = 0; i < launch_count(); ++i)
    launches_[i].parameters = parameters_.data() + first[i];
}

void BoundLaunches::bind_launch(int32_t launch, const Step& step) {
  const Kernel& kernel = program().kernel_of(step);
  Launch& bound = launches_[static_cast<size_t>(launch)];
  bound.grid = bind_grid(step, kernel.name, dims().data());
  if (bound.is_empty()) return;
  bound.function = code_.kernel(step.kernel);
  // Launches follow one another: one region, aligned for all, serves them all.
  const int64_t bytes = scratch_of(kernel, bound);
  int64_t wanted = 0;
  if (__builtin_add_overflow(bytes, bytes > 0 ? alignment_ - kMemoryAlignment : 0, &wanted)) {
    fail(AOT_SHAPE_MISMATCH, "sizes are too large: scratch of kernel '", kernel.name, "'");
  }
  need_scratch(wanted);
}

void BoundLaunches::set_scratch(uint8_t* memory) {
  const auto alignment = static_cast<uintptr_t>(alignment_);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
  scratch_ = reinterpret_cast<void*>((begin + alignment - 1) / alignment * alignment);
}

void BoundLaunches::sizes_changed(int32_t scope) {
  const std::vector<int32_t>& steps = program().scopes[static_cast<size_t>(scope)].launches;
  for (Segment& segment : segments_) {
    const auto inside = [this, &segment](int32_t step) {
      const int32_t launch = launch_of(step) - segment.first;
      return launch >= 0 && static_cast<size_t>(launch) < segment.launches.count;
    };
    if (std::none_of(steps.begin(), steps.end(), inside)) continue;
    segment.variants.clear();
    segment.runs = 0;
    segment.patches = 0;
  }
}

void BoundLaunches::set_weights(const Container& container, uint64_t generation,
                                const Placement* weights) {
  BoundProgram::set_weights(container, generation, weights);
  for (Segment& segment : segments_) segment.variants.clear();
}

size_t BoundLaunches::footprint() const {
  size_t bytes = BoundProgram::footprint() + launches_.size() * sizeof(Launch) +
                 parameters_.size() * sizeof(void*);
  for (const Segment& segment : segments_) {
    const size_t graph = segment.launches.count * kGraphNode + address_count() * sizeof(void*);
    bytes += sizeof(segment) + segment.variants.size() * graph;
  }
  return bytes;
}

Segment& BoundLaunches::segment(int32_t begin, int32_t end) {
  const auto same = [begin](const Segment& segment) { return segment.begin == begin; };
  const auto known = std::find_if(segments_.begin(), segments_.end(), same);
  if (known != segments_.end()) return *known;
  Segment segment;
  segment.begin = begin;
  segment.first = first_launch(begin);
  const int32_t last = first_launch(end);
  segment.launches = {launches_.data() + segment.first, static_cast<size_t>(last - segment.first)};
  for (const Places& places : places()) {
    segment.uses.push_back(std::any_of(places.begin(), places.end(), [&](const Place& place) {
      return place.launch >= segment.first && place.launch < last;
    }));
  }
  segment.uses.push_back(std::any_of(segment.launches.begin(), segment.launches.end(),
                                     [](const Launch& launch) { return launch.scratch; }));
  segments_.push_back(std::move(segment));
  return segments_.back();
}

int64_t BoundLaunches::distance(const Segment& segment, const Segment::Variant& variant) const {
  int64_t count = 0;
  for (size_t i = 0; i < address_count(); ++i) {
    count += segment.uses[i] && variant.addresses[i] != present(i);
  }
  return count;
}

void BoundLaunches::copy_addresses(std::vector<void*>* to) const {
  to->resize(address_count());
  for (size_t i = 0; i < address_count(); ++i) (*to)[i] = present(i);
}

void BoundLaunches::patch(Segment* segment, Segment::Variant* variant) {
  const auto last = segment->first + static_cast<int32_t>(segment->launches.count);
  for (size_t i = 0; i < places().size(); ++i) {
    if (!segment->uses[i] || variant->addresses[i] == present(i)) continue;
    for (const Place& place : places()[i]) {
      if (place.launch < segment->first || place.launch >= last) continue;
      launches_[static_cast<size_t>(place.launch)].changed = true;
    }
  }
  if (variant->addresses.back() != scratch_) {
    for (Launch& launch : segment->launches) launch.changed = launch.changed || launch.scratch;
  }
  // Should the driver refuse, nothing is known of the graph.
  std::fill(variant->addresses.begin(), variant->addresses.end(), kNoAddress);
  variant->graph->update(segment->launches);
  copy_addresses(&variant->addresses);
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
    Segment::Variant made{std::make_unique<Graph>(device, segment->launches), {}};
    copy_addresses(&made.addresses);
    variants.push_back(std::move(made));
    return *variants.back().graph;
  }
  patch(segment, &variants[best]);
  return *variants[best].graph;
}

}  // namespace aot_rt::cuda
