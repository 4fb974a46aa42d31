#include "cpu/chunks.h"

#include <algorithm>
#include <vector>

#include "check.h"

namespace {

using aot_rt::Chunks;

std::vector<int64_t> lengths(const Chunks& chunks) {
  std::vector<int64_t> found;
  for (int32_t i = 0; i < chunks.count(); ++i)
    found.push_back(chunks.begin(i + 1) - chunks.begin(i));
  return found;
}

using Lengths = std::vector<int64_t>;

TEST(chunks_cover_all_units_in_order) {
  for (const int32_t threads : {1, 2, 3, 7, 64, 1024}) {
    for (const int64_t units : {0, 1, 2, 5, 12, 28, 131, 1000, 123457}) {
      for (const int64_t grain : {1, 3, 1000}) {
        const Chunks chunks(units, grain, threads);
        CHECK_EQ(chunks.begin(0), int64_t{0});
        CHECK_EQ(chunks.begin(chunks.count()), units);
        const Lengths found = lengths(chunks);
        CHECK(*std::min_element(found.begin(), found.end()) >= 0);
        CHECK(chunks.count() <= std::max<int64_t>(1, units / grain));
      }
    }
  }
}

TEST(greatest_numbers_of_units_do_not_overflow) {
  const Chunks chunks(INT64_MAX, 1, 1024);
  CHECK_EQ(chunks.begin(chunks.count()), INT64_MAX);
  for (const int64_t length : lengths(chunks)) CHECK(length > 0);
}

TEST(one_thread_has_one_chunk) { CHECK(lengths(Chunks(28, 1, 1)) == Lengths{28}); }

TEST(two_workers_have_equal_shares_and_the_last_chunks_are_small) {
  CHECK(lengths(Chunks(64, 1, 2)) == (Lengths{8, 8, 6, 5, 3, 2, 2, 3, 5, 6, 8, 8}));
}

TEST(few_units_are_cut_in_two_at_most) {
  CHECK(lengths(Chunks(1, 1, 4)) == Lengths{1});
  CHECK(lengths(Chunks(3, 1, 4)) == (Lengths{1, 1, 1}));
  CHECK(lengths(Chunks(6, 1, 2)) == (Lengths{3, 3}));
  CHECK(lengths(Chunks(8, 1, 2)) == (Lengths{2, 2, 2, 2}));
  CHECK(lengths(Chunks(9, 2, 2)) == (Lengths{4, 5}));
}

// The caller takes chunks from the front and each helper from the back: who has done least is next.
int64_t longest_share(const Chunks& chunks, int32_t threads) {
  const Lengths found = lengths(chunks);
  std::vector<int64_t> done(static_cast<size_t>(threads));
  size_t low = 0;
  size_t high = found.size();
  while (low < high) {
    const auto next = std::min_element(done.begin(), done.end());
    *next += next == done.begin() ? found[low++] : found[--high];
  }
  return *std::max_element(done.begin(), done.end());
}

TEST(equal_workers_end_within_a_unit_of_each_other) {
  for (const int64_t units : {12, 14, 21, 22, 25, 28, 50, 196, 3136}) {
    CHECK(longest_share(Chunks(units, 1, 2), 2) <= (units + 1) / 2 + 1 + units / 64);
  }
}

TEST(several_helpers_share_evenly) {
  for (const int32_t threads : {3, 4, 8}) {
    const int64_t units = 960;
    CHECK(longest_share(Chunks(units, 1, threads), threads) * threads <= units * 11 / 10);
  }
}

}  // namespace

TEST_MAIN
