#include "strided_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "check.h"

namespace {

using Sizes = std::vector<int64_t>;

Sizes dense(const Sizes& sizes, const std::vector<size_t>& order) {
  Sizes strides(sizes.size());
  int64_t next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = next;
    next *= sizes[order[i]];
  }
  return strides;
}

int64_t offset(const Sizes& index, const Sizes& strides) {
  int64_t sum = 0;
  for (size_t i = 0; i < index.size(); ++i) sum += index[i] * strides[i];
  return sum;
}

// Copies between two orders of the axes and compares every element with a plain loop.
void check_copy(const Sizes& sizes, const std::vector<size_t>& to_order,
                const std::vector<size_t>& from_order, int32_t element) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  std::vector<uint8_t> from(static_cast<size_t>(count * element) + 1);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 131 + i / 251);
  std::vector<uint8_t> to(from.size(), 0);
  const Sizes to_strides = dense(sizes, to_order);
  const Sizes from_strides = dense(sizes, from_order);
  aot_rt::strided_copy(to.data(), to_strides, from.data() + 1, from_strides, sizes, element);
  Sizes index(sizes.size(), 0);
  bool same = true;
  for (int64_t n = 0; n < count; ++n) {
    const auto t = static_cast<size_t>(offset(index, to_strides) * element);
    const auto f = static_cast<size_t>(offset(index, from_strides) * element) + 1;
    same = same && std::memcmp(&to[t], &from[f], static_cast<size_t>(element)) == 0;
    for (size_t axis = sizes.size(); axis-- > 0;) {
      if (++index[axis] < sizes[axis]) break;
      index[axis] = 0;
    }
  }
  CHECK(same);
}

TEST(every_order_of_four_axes) {
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    for (const int32_t element : {1, 2, 4, 8}) {
      check_copy({2, 3, 5, 7}, order, {0, 1, 2, 3}, element);
      check_copy({2, 3, 5, 7}, {0, 1, 2, 3}, order, element);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(planes_larger_than_a_tile) {
  check_copy({70, 45}, {0, 1}, {1, 0}, 4);
  check_copy({3, 33, 65}, {0, 2, 1}, {0, 1, 2}, 2);
}

TEST(scalars_and_single_sizes) {
  check_copy({}, {}, {}, 8);
  check_copy({1, 1, 1}, {0, 1, 2}, {2, 1, 0}, 4);
  check_copy({1, 6, 1}, {0, 1, 2}, {2, 1, 0}, 4);
}

TEST(empty_copies_nothing) { aot_rt::strided_copy(nullptr, {0, 1}, nullptr, {1, 1}, {3, 0}, 4); }

TEST(negative_and_zero_strides_of_the_source) {
  const float from[] = {1, 2, 3, 4};
  float to[4] = {};
  aot_rt::strided_copy(to, {1}, from + 3, {-1}, {4}, 4);
  CHECK_EQ(to[0], 4.0f);
  CHECK_EQ(to[3], 1.0f);
  aot_rt::strided_copy(to, {2, 1}, from + 1, {0, 1}, {2, 2}, 4);
  CHECK_EQ(to[2], 2.0f);
  CHECK_EQ(to[3], 3.0f);
}

}  // namespace

TEST_MAIN
