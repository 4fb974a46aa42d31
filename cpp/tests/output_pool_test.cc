#include "output_pool.h"

#include <cstdlib>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using aot_rt::OutputBlock;
using aot_rt::OutputPool;

// Counts what is allocated and not yet released.
struct Counter {
  int64_t live = 0;
  int64_t made = 0;

  aot_allocator allocator() {
    return {sizeof(aot_allocator), this,
            [](void* context, size_t size, size_t alignment) {
              auto* self = static_cast<Counter*>(context);
              ++self->live;
              ++self->made;
              return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
            },
            [](void* context, void* data, size_t, size_t) {
              --static_cast<Counter*>(context)->live;
              std::free(data);
            }};
  }
};

TEST(returned_blocks_serve_again) {
  Counter counter;
  aot_rt::OutputPoolPtr pool = OutputPool::create(counter.allocator());
  OutputBlock* first = pool->take(100'000);
  uint8_t* data = first->data();
  OutputPool::give_back(first);
  OutputBlock* again = pool->take(90'000);
  CHECK(again->data() == data);
  OutputBlock* small = pool->take(10);  // the block in use cannot serve
  CHECK_EQ(counter.made, int64_t{2});
  OutputPool::give_back(again);
  OutputBlock* tiny = pool->take(100);  // far too small to hold 100 kB for it
  CHECK_EQ(counter.made, int64_t{3});
  OutputPool::give_back(small);
  OutputPool::give_back(tiny);
  pool.reset();
  CHECK_EQ(counter.live, int64_t{0});
}

TEST(users_get_their_own_blocks_again) {
  Counter counter;
  aot_rt::OutputPoolPtr pool = OutputPool::create(counter.allocator());
  OutputBlock* blocks[] = {pool->take(64, nullptr, 0), pool->take(64, nullptr, 1)};
  for (int round = 0; round < 4; ++round) {
    const uint8_t* data[] = {blocks[0]->data(), blocks[1]->data()};
    OutputPool::give_back(blocks[round % 2]);
    OutputPool::give_back(blocks[1 - round % 2]);
    for (size_t user = 0; user < 2; ++user) {
      blocks[user] = pool->take(64, nullptr, user);
      CHECK(blocks[user]->data() == data[user]);
    }
  }
  for (OutputBlock* block : blocks) OutputPool::give_back(block);
  pool.reset();
}

TEST(blocks_outlive_the_session) {
  Counter counter;
  aot_rt::OutputPoolPtr pool = OutputPool::create(counter.allocator());
  OutputBlock* a = pool->take(64);
  OutputBlock* b = pool->take(64);
  OutputPool::give_back(a);
  pool.reset();
  b->data()[63] = 7;
  CHECK(counter.live >= 1);
  OutputPool::give_back(b);
  CHECK_EQ(counter.live, int64_t{0});
}

TEST(unused_blocks_are_trimmed_oldest_first) {
  Counter counter;
  aot_rt::OutputPoolPtr pool = OutputPool::create(counter.allocator());
  OutputBlock* blocks[] = {pool->take(10'000), pool->take(40'000), pool->take(160'000)};
  for (OutputBlock* block : blocks) OutputPool::give_back(block);
  OutputPool::give_back(pool->take(160'000));  // collects what was returned
  OutputPool::give_back(pool->take(160'000));
  pool->trim(0);
  CHECK(counter.live <= 1);
  pool.reset();
  CHECK_EQ(counter.live, int64_t{0});
}

TEST(blocks_come_back_from_any_thread) {
  Counter counter;
  aot_rt::OutputPoolPtr pool = OutputPool::create(counter.allocator());
  for (int round = 0; round < 50; ++round) {
    OutputBlock* blocks[8];
    for (OutputBlock*& block : blocks) block = pool->take(1000);
    std::vector<std::thread> threads;
    for (OutputBlock* block : blocks) {
      threads.emplace_back([block] { OutputPool::give_back(block); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  CHECK_EQ(counter.made, int64_t{8});
  pool.reset();
  CHECK_EQ(counter.live, int64_t{0});
}

TEST(descriptions) {
  aot_rt::OutputPoolPtr pool = OutputPool::create(aot_rt::default_allocator());
  aot_rt::BoundTensor bound;
  bound.sizes = {2, 3};
  bound.strides = {1, 2};
  OutputBlock* block = pool->take(24);
  block->describe(bound, *aot_rt::find_dtype("float32"));
  DLManagedTensor* plain = block->as_plain();
  CHECK_EQ(plain->dl_tensor.ndim, 2);
  CHECK_EQ(plain->dl_tensor.strides[1], int64_t{2});
  CHECK_EQ(int{plain->dl_tensor.dtype.bits}, 32);
  CHECK_EQ(block->as_versioned()->version.major, 1u);
  plain->deleter(plain);
  pool.reset();
}

}  // namespace

TEST_MAIN
