#include "weights.h"

#include "error.h"

namespace aot_rt {
namespace {

size_t position_of(const Entry& entry, const Container& container) {
  return static_cast<size_t>(&entry - container.entries().data());
}

[[noreturn]] void fail_missing(const Plan& plan, const Derived& derived, const WeightValues& values,
                               const Changed& changed) {
  std::string missing;
  std::string given;
  for (const int32_t source : derived.sources) {
    const auto id = static_cast<size_t>(source);
    std::string* list = nullptr;
    if (host_bytes(plan.weights[id], values[id]) == nullptr) list = &missing;
    if (changed[id]) list = &given;
    if (list == nullptr) continue;
    *list += cat(list->empty() ? "'" : ", '", plan.weights[id].name, "'");
  }
  fail(AOT_INVALID_ARGUMENT, "replacing ", given, " needs ", missing,
       " too, which it is folded together with and which the package does not keep: replace them "
       "together, or package with --keep-originals");
}

SharedBytes derive(WeightDevice& device, const Plan& plan, const Derived& derived,
                   const WeightValues& values, const Changed& changed) {
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor*> sources;
  tensors.reserve(derived.sources.size());
  for (const int32_t source : derived.sources) {
    const auto id = static_cast<size_t>(source);
    const WeightSpec& spec = plan.weights[id];
    const uint8_t* bytes = host_bytes(spec, values[id]);
    if (bytes == nullptr) fail_missing(plan, derived, values, changed);
    DLTensor tensor{};
    tensor.data = const_cast<uint8_t*>(bytes);  // inputs are never written
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(spec.shape.size());
    tensor.dtype = to_dlpack(*spec.dtype);
    tensor.shape = const_cast<int64_t*>(spec.shape.data());
    tensors.push_back(tensor);
    sources.push_back(&tensors.back());
  }
  return device.derive(*device.program().routines[static_cast<size_t>(derived.routine)],
                       sources.data());
}

bool any_changed(const Derived& derived, const Changed& changed) {
  for (const int32_t source : derived.sources) {
    if (changed[static_cast<size_t>(source)]) return true;
  }
  return false;
}

}  // namespace

const uint8_t* entry_bytes(const Entry& entry, const Container& container,
                           const Placement* placement) {
  const size_t position = position_of(entry, container);
  const bool moved =
      placement != nullptr && position < placement->size() && (*placement)[position] != nullptr;
  return moved ? (*placement)[position].get() : entry.bytes.data;
}

const uint8_t* host_bytes(const WeightSpec& spec, const WeightValue& value) {
  if (value.state == WeightValue::State::kKept) return value.bytes.get();
  if (value.state == WeightValue::State::kGone || spec.entry == nullptr) return nullptr;
  return spec.entry->bytes.data;
}

Placement place_changes(WeightDevice& device, const Plan& plan, const Container& container,
                        const Placement& before, const WeightValues& values,
                        const Changed& changed) {
  const Program& program = device.program();
  Placement after = before;
  after.resize(container.entries().size());
  std::vector<bool> read(after.size(), false);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.storage == Storage::kEntry) read[position_of(*buffer.entry, container)] = true;
  }
  for (size_t id = 0; id < plan.weights.size(); ++id) {
    const WeightSpec& spec = plan.weights[id];
    if (!changed[id] || spec.entry == nullptr) continue;
    const size_t position = position_of(*spec.entry, container);
    if (!read[position]) continue;
    after[position] = device.store(values[id].bytes, static_cast<size_t>(spec.bytes));
  }
  for (const Derived& derived : program.derived) {
    const size_t position = position_of(*derived.entry, container);
    if (!read[position] || !any_changed(derived, changed)) continue;
    after[position] = derive(device, plan, derived, values, changed);
  }
  return after;
}

}  // namespace aot_rt
