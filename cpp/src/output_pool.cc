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

// A block may serve a smaller request, but not waste more than this.
bool fits(size_t have, size_t need) { return have >= need && have <= 2 * need + 4096; }

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

OutputPool* OutputPool::create(const aot_allocator& allocator, DLDevice device,
                               std::shared_ptr<const void> owner) {
  return new OutputPool(allocator, device, std::move(owner));
}

OutputPool::~OutputPool() {
  collect();
  for (OutputBlock* block : free_) delete block;
}

void OutputPool::close() {
  closed_.store(true, std::memory_order_release);
  unref();
}

void OutputPool::unref() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void OutputPool::collect() {
  OutputBlock* block = returned_.exchange(nullptr, std::memory_order_acquire);
  for (; block != nullptr; block = block->next_) free_.push_back(block);
}

OutputBlock* OutputPool::take(size_t bytes, const void* queue, size_t user) {
  collect();
  size_t best = free_.size();
  const auto better = [user](const OutputBlock& block, const OutputBlock& than) {
    if (block.memory_.size() != than.memory_.size()) {
      return block.memory_.size() < than.memory_.size();
    }
    return block.user_ == user && than.user_ != user;
  };
  for (size_t i = 0; i < free_.size(); ++i) {
    if (free_[i]->queue_ != queue || !fits(free_[i]->memory_.size(), bytes)) continue;
    if (best == free_.size() || better(*free_[i], *free_[best])) best = i;
  }
  OutputBlock* block = nullptr;
  if (best < free_.size()) {
    block = free_[best];
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
  } else {
    block = new OutputBlock(allocator_, bytes, this);
    block->queue_ = queue;
  }
  block->user_ = user;
  references_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void OutputPool::trim(size_t bytes) {
  size_t held = 0;
  for (const OutputBlock* block : free_) held += block->memory_.size();
  while (held > bytes) {
    held -= free_.front()->memory_.size();
    delete free_.front();
    free_.erase(free_.begin());
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
