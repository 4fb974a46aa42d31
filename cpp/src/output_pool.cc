#include "output_pool.h"

#include <algorithm>

namespace aot_rt {
namespace {

void delete_plain(DLManagedTensor* self) {
  OutputPool::give_back(static_cast<OutputBlock*>(self->manager_ctx));
}

void delete_versioned(DLManagedTensorVersioned* self) {
  OutputPool::give_back(static_cast<OutputBlock*>(self->manager_ctx));
}

constexpr size_t kSlack = 4096;
constexpr int32_t kWindow = 64;  // runs

// A block may serve a smaller request, but not waste more than this.
bool fits(size_t have, size_t need) { return have >= need && have <= 2 * need + kSlack; }

}  // namespace

OutputBlock::OutputBlock(const aot_allocator& allocator, size_t bytes, OutputPool* pool)
    : memory_(allocator, bytes, "an output"), pool_(pool) {
  plain_.manager_ctx = this;
  plain_.deleter = delete_plain;
  versioned_.version = DLPackVersion{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  versioned_.manager_ctx = this;
  versioned_.deleter = delete_versioned;
}

void OutputBlock::describe(const BoundTensor& bound, const DType& dtype) {
  sizes_ = bound.sizes;  // reuses their storage
  strides_ = bound.strides;
  DLTensor tensor{};
  tensor.data = memory_.data();
  tensor.device = pool_->device();
  tensor.ndim = static_cast<int32_t>(sizes_.size());
  tensor.dtype = to_dlpack(dtype);
  tensor.shape = sizes_.data();
  tensor.strides = strides_.data();
  plain_.dl_tensor = tensor;
  versioned_.dl_tensor = tensor;
}

void CloseOutputPool::operator()(OutputPool* pool) const noexcept { pool->close(); }

OutputPoolPtr OutputPool::create(const aot_allocator& allocator, DLDevice device,
                                 std::shared_ptr<const void> owner) {
  return OutputPoolPtr(new OutputPool(allocator, device, std::move(owner)));
}

OutputPool::~OutputPool() {
  collect();
  trim(0);
}

void OutputPool::close() {
  closed_.store(true, std::memory_order_release);
  unref();
}

void OutputPool::unref() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

// Returned blocks form a stack: the first given back is last.
void OutputPool::collect() {
  OutputBlock* block = returned_.exchange(nullptr, std::memory_order_acquire);
  OutputBlock* in_order = nullptr;
  OutputBlock* const last = block;
  while (block != nullptr) {
    OutputBlock* const next = block->next_;
    block->next_ = in_order;
    in_order = block;
    block = next;
  }
  if (in_order == nullptr) return;
  (newest_ == nullptr ? free_ : newest_->next_) = in_order;
  newest_ = last;
}

OutputBlock* OutputPool::take(size_t bytes, const void* queue, size_t user) {
  collect();
  const auto better = [user](const OutputBlock& block, const OutputBlock& than) {
    if (block.memory_.size() != than.memory_.size()) {
      return block.memory_.size() < than.memory_.size();
    }
    return block.user_ == user && than.user_ != user;
  };
  OutputBlock* before_best = nullptr;
  OutputBlock* best = nullptr;
  OutputBlock* before = nullptr;
  for (OutputBlock* block = free_; block != nullptr; before = block, block = block->next_) {
    if (block->queue_ != queue || !fits(block->memory_.size(), bytes)) continue;
    if (best != nullptr && !better(*block, *best)) continue;
    best = block;
    before_best = before;
  }
  if (best != nullptr) {
    (before_best == nullptr ? free_ : before_best->next_) = best->next_;
    if (newest_ == best) newest_ = before_best;
    best->next_ = nullptr;
  } else {
    best = new OutputBlock(allocator_, bytes, this);
    best->queue_ = queue;
  }
  best->user_ = user;
  references_.fetch_add(1, std::memory_order_relaxed);
  return best;
}

void OutputPool::trim_to_use(size_t bytes) {
  needed_ = std::max(needed_, bytes);
  trim(2 * std::max(needed_, needed_before_) + kSlack);
  if (++runs_ < kWindow) return;
  runs_ = 0;
  needed_before_ = needed_;
  needed_ = 0;
}

size_t OutputPool::idle_bytes() {
  collect();
  size_t held = 0;
  for (const OutputBlock* block = free_; block != nullptr; block = block->next_) {
    held += block->memory_.size();
  }
  return held;
}

void OutputPool::trim(size_t bytes) {
  size_t held = idle_bytes();
  while (held > bytes) {
    OutputBlock* const oldest = free_;
    held -= oldest->memory_.size();
    free_ = oldest->next_;
    if (free_ == nullptr) newest_ = nullptr;
    delete oldest;
  }
}

void OutputPool::give_back(OutputBlock* block) {
  OutputPool* pool = block->pool_;
  if (pool->closed_.load(std::memory_order_acquire)) {
    delete block;
  } else {
    OutputBlock* head = pool->returned_.load(std::memory_order_relaxed);
    do {
      block->next_ = head;
    } while (!pool->returned_.compare_exchange_weak(head, block, std::memory_order_release,
                                                    std::memory_order_relaxed));
  }
  pool->unref();
}

}  // namespace aot_rt
