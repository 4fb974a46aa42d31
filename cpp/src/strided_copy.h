// Copies a tensor from one layout to another.
#ifndef AOT_SRC_STRIDED_COPY_H_
#define AOT_SRC_STRIDED_COPY_H_

#include <cstdint>
#include <vector>

namespace aot_rt {

// to[i · to_strides] = from[i · from_strides] for every index i below `sizes`. Strides count
// elements of `element` bytes (1, 2, 4 or 8). Addresses need no alignment. No overlap.
void strided_copy(void* to, const std::vector<int64_t>& to_strides, const void* from,
                  const std::vector<int64_t>& from_strides, const std::vector<int64_t>& sizes,
                  int32_t element);

}  // namespace aot_rt

#endif  // AOT_SRC_STRIDED_COPY_H_
