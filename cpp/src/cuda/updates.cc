#include "cuda/updates.h"

#include <algorithm>

#include "contract.h"
#include "strided_copy.h"

namespace aot_rt::cuda {

bool Updates::any_on_host(const DLTensor* const* inputs) const {
  return std::any_of(program_.updates.begin(), program_.updates.end(),
                     [inputs](const Update& update) {
                       return update.input && on_host(*inputs[static_cast<size_t>(update.index)]);
                     });
}

void Updates::enqueue(const BoundLaunches& bound, const DLTensor* const* inputs, CUstream stream) {
  const Driver& driver = device_.driver();
  fetched_.resize(program_.updates.size());
  for (size_t i = 0; i < program_.updates.size(); ++i) {
    const Update& update = program_.updates[i];
    const auto index = static_cast<size_t>(update.index);
    const auto from = reinterpret_cast<CUdeviceptr>(bound.address(update.buffer));
    const auto bytes =
        static_cast<size_t>(update.input ? bound.inputs()[index].span : plan_.states[index].bytes);
    if (bytes == 0) continue;
    if (!update.input) {
      const auto offset = static_cast<CUdeviceptr>(plan_.states[index].offset);
      driver.memcpy_dtod_async(states_.address() + offset, from, bytes, stream);
    } else if (on_host(*inputs[index])) {
      if (fetched_[i].size() < bytes) {
        fetched_[i] = Block(default_allocator(), bytes, "the new value of an input");
      }
      driver.memcpy_dtoh_async(fetched_[i].data(), from, bytes, stream);
    } else {
      const DLTensor& tensor = *inputs[index];
      const auto to = reinterpret_cast<CUdeviceptr>(tensor.data) + tensor.byte_offset;
      driver.memcpy_dtod_async(to, from, bytes, stream);
    }
  }
}

void Updates::finish(const BoundLaunches& bound, const DLTensor* const* inputs) {
  for (size_t i = 0; i < program_.updates.size(); ++i) {
    const Update& update = program_.updates[i];
    const auto index = static_cast<size_t>(update.index);
    if (!update.input || !on_host(*inputs[index])) continue;
    write_input(*inputs[index], bound.inputs()[index], *plan_.inputs[index].dtype,
                fetched_[i].data());
  }
}

}  // namespace aot_rt::cuda
