// What a session's runs are bound to, and the memory that they are placed in.
#include <algorithm>
#include <mutex>
#include <utility>

#include "contract.h"
#include "error.h"
#include "session.h"

namespace aot_rt {
namespace {

constexpr uintptr_t kDeviceAlignment = 16;

}  // namespace

BoundProgram& Session::bind(const DLTensor* const* inputs, size_t count) {
  if (!plans_.empty() && inputs_match(plan(), *plans_.front(), inputs, count, device())) {
    plans_.front()->forget();
    return *plans_.front();
  }
  std::vector<int64_t> dims = bind_dims(plan(), inputs, count, device());
  // Of measured dims nothing is known here, nor was when the others were made.
  const auto same = [&dims, this](const auto& bound) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!plan().dims[i].measured() && bound->dims()[i] != dims[i]) return false;
    }
    return true;
  };
  const auto found = std::find_if(plans_.begin(), plans_.end(), same);
  if (found != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, found);
  } else {
    plans_.push_front(device_->bind(std::move(dims), states_.data()));
    trim_plans(static_cast<size_t>(options_.limits.plan_bytes));
  }
  plans_.front()->forget();
  return *plans_.front();
}

// Keeps the one in front, whatever it takes.
void Session::trim_plans(size_t most_bytes) {
  size_t bytes = 0;
  size_t kept = 0;
  for (auto at = plans_.begin(); at != plans_.end();) {
    bytes += (*at)->footprint();
    if (at == plans_.begin() || (kept < device_->most_plans() && bytes <= most_bytes)) {
      ++kept;
      ++at;
      continue;
    }
    device_->forget(std::move(*at));
    at = plans_.erase(at);
  }
}

void Session::borrow_workspace() {
  if (workspace_ == nullptr) workspace_ = workspaces_->take(last_workspace_);
  last_workspace_ = workspace_.get();
}

void Session::return_workspace() noexcept {
  if (workspace_ != nullptr) workspaces_->give_back(std::move(workspace_));
}

void Session::grow(Block* block, int64_t wanted, const char* purpose) {
  const auto bytes = static_cast<size_t>(wanted);
  if (block->size() >= bytes) return;
  *block = Block();  // first, so that old and new are not held together
  *block = device_->allocate(bytes, purpose);
  package().log()(AOT_LOG_DEBUG, cat(bytes, " bytes of ", purpose));
}

void Session::place_temporaries() {
  int64_t total = bound_->scratch_bytes();
  for (size_t scope = 0; scope < program().scopes.size(); ++scope) {
    const int64_t bytes = bound_->arena_bytes(static_cast<int32_t>(scope));
    if (__builtin_add_overflow(total, bytes, &total) || total > options_.limits.arena_bytes) {
      fail(AOT_LIMIT_EXCEEDED, "these sizes need more than the ", options_.limits.arena_bytes,
           " bytes of temporaries that a run may have: raise arena_bytes in aot_limits");
    }
  }
  for (size_t scope = 0; scope < program().scopes.size(); ++scope) {
    Block& arena = workspace_->arenas[scope];
    grow(&arena, bound_->arena_bytes(static_cast<int32_t>(scope)), "temporaries");
    bound_->set_arena(scope, arena.data());
  }
  grow(&workspace_->scratch, bound_->scratch_bytes(), "scratch");
  bound_->set_scratch(workspace_->scratch.data());
}

bool Session::owns_buffer(size_t output) const {
  const Buffer& buffer = program().buffer_of_output(output);
  return buffer.storage == Storage::kOutput && static_cast<size_t>(buffer.index) == output;
}

size_t Session::output_bytes(size_t output) const {
  return static_cast<size_t>(bound_->buffer_bytes(program().outputs[output]));
}

void Session::place_outputs() {
  for (size_t i = 0; i < plan().outputs.size(); ++i) {
    if (bound_->knows_output(i) && !placed_[i]) place_output(i);
  }
}

void Session::place_output(size_t index) {
  const BoundTensor& tensor = bound_->outputs()[index];
  const DType& dtype = *plan().outputs[index].dtype;
  const size_t bytes = output_bytes(index);
  if (__builtin_add_overflow(placed_bytes_, bytes, &placed_bytes_) ||
      placed_bytes_ > static_cast<size_t>(options_.limits.output_bytes)) {
    fail(AOT_LIMIT_EXCEEDED, "these sizes need more than the ", options_.limits.output_bytes,
         " bytes of outputs that a run may have: raise output_bytes in aot_limits");
  }
  const DLTensor* const callers = callers_output(index);
  if (callers != nullptr) check_output(plan(), index, *callers, tensor, device());
  void* place = callers != nullptr ? direct_place(index, *callers) : nullptr;
  const bool fetched = is_fetched(index);
  if (place == nullptr && (owns_buffer(index) || !fetched)) {
    results_[index] = outputs_->take(bytes, device_->queue(), index);
    results_[index]->describe(tensor, dtype);
    place = results_[index]->data();
  }
  if (fetched) {
    fetched_[index] = host_outputs_->take(bytes, nullptr, index);
    fetched_[index]->describe(tensor, dtype);
  }
  places_[index] = place;
  if (owns_buffer(index)) bound_->set_output(index, place);
  placed_[index] = true;
}

const DLTensor* Session::callers_output(size_t index) const {
  return callers_ == nullptr ? nullptr : callers_[index];
}

// Whether the output is copied from a device that is apart to the host.
bool Session::is_fetched(size_t index) const {
  if (!device_->is_apart()) return false;
  const DLTensor* const callers = callers_output(index);
  return callers != nullptr ? on_host(*callers) : to_host_;
}

// The caller's memory, where steps can write the output; nullptr: it is copied there at the end.
void* Session::direct_place(size_t index, const DLTensor& callers) const {
  const BoundTensor& tensor = bound_->outputs()[index];
  if (device_->is_apart() && on_host(callers)) return nullptr;
  auto* const address = static_cast<uint8_t*>(callers.data) + callers.byte_offset;
  if (device_->is_apart()) {
    if (!strides_match(callers, tensor) ||
        reinterpret_cast<uintptr_t>(address) % kDeviceAlignment != 0) {
      fail(AOT_INVALID_ARGUMENT, output_name(plan(), index),
           " is on the GPU in other strides than ", "the plan's, or not aligned to ",
           kDeviceAlignment, " bytes: give contiguous memory");
    }
  } else if (!owns_buffer(index) ||
             !readable_in_place(callers, tensor, *plan().outputs[index].dtype)) {
    return nullptr;
  }
  // Kernels may write all bytes of the buffer.
  if (owns_buffer(index) && output_bytes(index) > static_cast<size_t>(tensor.span)) {
    if (!device_->is_apart()) return nullptr;
    fail(AOT_UNSUPPORTED, output_name(plan(), index),
         " cannot be written into memory of the GPU: ", "its kernels need ", output_bytes(index),
         " bytes, the tensor has ", tensor.span, ": leave it to the runtime");
  }
  return address;
}

// Keeps no more unused blocks than runs need.
void Session::trim_outputs() {
  size_t device = 0;
  size_t host = 0;
  for (size_t i = 0; i < plan().outputs.size(); ++i) {
    if (!placed_[i]) {
      fail(AOT_CORRUPT_PACKAGE, "plan: no step reads the size of output '", plan().outputs[i].name,
           "'");
    }
    if (results_[i] != nullptr) device += output_bytes(i);
    if (fetched_[i] != nullptr) host += output_bytes(i);
  }
  outputs_->trim_to_use(device);
  if (host_outputs_ != nullptr) host_outputs_->trim_to_use(host);
}

// Gives up what a run can do without. No run is under way.
void Session::spare_memory() {
  device_->synchronize();
  trim_plans(0);
  outputs_->trim(0);
  if (host_outputs_ != nullptr) host_outputs_->trim(0);
  workspaces_->trim();
}

aot_memory_info Session::memory() {
  const std::lock_guard<Lock> lock(lock_);
  aot_memory_info info{};
  info.struct_size = sizeof(info);
  for (const auto& bound : plans_) info.plan_bytes += static_cast<int64_t>(bound->footprint());
  info.plans = static_cast<int64_t>(plans_.size());
  info.state_bytes = plan().state_bytes;
  if (workspace_ != nullptr) info.workspace_bytes = static_cast<int64_t>(workspace_->bytes());
  info.shared_bytes = static_cast<int64_t>(workspaces_->idle_bytes());
  info.output_bytes = static_cast<int64_t>(outputs_->idle_bytes());
  if (host_outputs_ != nullptr) {
    info.output_bytes += static_cast<int64_t>(host_outputs_->idle_bytes());
  }
  return info;
}

void Session::trim() {
  const std::lock_guard<Lock> lock(lock_);
  device_->synchronize();
  return_workspace();
  spare_memory();
  for (std::unique_ptr<BoundProgram>& bound : plans_) device_->forget(std::move(bound));
  plans_.clear();
}

void Session::output_sizes(const DLTensor* const* inputs, size_t count, size_t index,
                           int64_t* sizes, size_t ndim) {
  const std::lock_guard<Lock> lock(lock_);
  const BoundProgram& bound = bind(inputs, count);
  if (index >= plan().outputs.size()) {
    fail(AOT_INVALID_ARGUMENT, "no output ", index, ": the model has ", plan().outputs.size());
  }
  const std::vector<Expr>& shape = plan().outputs[index].shape;
  if (ndim != shape.size()) {
    fail(AOT_INVALID_ARGUMENT, output_name(plan(), index), " has ", shape.size(),
         " dimensions, room for ", ndim);
  }
  for (size_t i = 0; i < ndim; ++i) {
    sizes[i] = bound.knows(shape[i]) ? shape[i].eval(bound.dims().data()) : -1;
  }
}

}  // namespace aot_rt
