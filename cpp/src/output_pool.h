// Output tensors from recycled memory, so that a steady state takes no page faults.
#ifndef AOT_SRC_OUTPUT_POOL_H_
#define AOT_SRC_OUTPUT_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "aot/abi.h"
#include "bound_sizes.h"
#include "dtype.h"
#include "memory.h"

namespace aot_rt {

class OutputPool;

// Gives a session's reference up; see OutputPool.
struct CloseOutputPool {
  void operator()(OutputPool* pool) const noexcept;
};
using OutputPoolPtr = std::unique_ptr<OutputPool, CloseOutputPool>;

// One output: memory plus the DLPack structures that describe it. Whoever holds it ends its life
// through a deleter (after `as_…`) or OutputPool::give_back.
class OutputBlock {
 public:
  uint8_t* data() const { return memory_.data(); }

  // Describes the content. `bound` gives sizes and strides.
  void describe(const BoundTensor& bound, const DType& dtype);

  DLManagedTensor* as_plain() { return &plain_; }
  DLManagedTensorVersioned* as_versioned() { return &versioned_; }

 private:
  friend class OutputPool;
  OutputBlock(const aot_allocator& allocator, size_t bytes, OutputPool* pool);

  Block memory_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  DLManagedTensor plain_{};
  DLManagedTensorVersioned versioned_{};
  OutputPool* pool_;
  const void* queue_ = nullptr;
  size_t user_ = 0;
  OutputBlock* next_ = nullptr;  // in the list of returned blocks
};

// Belongs to one session, but lives until the last block is back. take() is called by one thread
// at a time; blocks come back from any thread without a lock.
class OutputPool {
 public:
  // A pool with one reference, the session's. `device`: where the allocator's memory is. `owner`:
  // what the allocator needs, kept as long as any block.
  static OutputPoolPtr create(const aot_allocator& allocator, DLDevice device = {kDLCPU, 0},
                              std::shared_ptr<const void> owner = nullptr);

  // A block of at least `bytes`. `queue`: in whose order the block's users follow each other (a
  // stream); a returned block goes only to the queue that it was taken for. `user`: whoever wants
  // its last block rather than another of the same size. Throws OUT_OF_MEMORY.
  OutputBlock* take(size_t bytes, const void* queue = nullptr, size_t user = 0);

  // Told after each run what its outputs took together: frees unused blocks beyond what the runs of
  // late have needed, so that sizes that come in turn keep theirs.
  void trim_to_use(size_t bytes);
  // Frees unused blocks until they hold at most `bytes` together, the oldest first.
  void trim(size_t bytes);
  // Bytes of unused blocks.
  size_t idle_bytes();

  static void give_back(OutputBlock* block);

  DLDevice device() const { return device_; }

 private:
  OutputPool(const aot_allocator& allocator, DLDevice device, std::shared_ptr<const void> owner)
      : allocator_(allocator), device_(device), owner_(std::move(owner)) {}
  friend struct CloseOutputPool;
  ~OutputPool();
  void close();
  void collect();  // moves returned blocks to the others that are free
  void unref();

  aot_allocator allocator_;
  DLDevice device_;
  std::shared_ptr<const void> owner_;
  std::atomic<int64_t> references_{1};  // the session and every block that is out
  std::atomic<bool> closed_{false};
  std::atomic<OutputBlock*> returned_{nullptr};
  // Those that are free, linked by `next_`, oldest first: giving one back needs no memory.
  OutputBlock* free_ = nullptr;
  OutputBlock* newest_ = nullptr;
  // What single runs have needed at most, in this window of runs and the one before.
  size_t needed_ = 0;
  size_t needed_before_ = 0;
  int32_t runs_ = 0;  // of this window
};

}  // namespace aot_rt

#endif  // AOT_SRC_OUTPUT_POOL_H_
