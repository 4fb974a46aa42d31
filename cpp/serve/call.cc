#include "call.h"

#include <cstring>

namespace serve {
namespace {

bool is_contiguous(const DLTensor& view) {
  if (view.strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t axis = view.ndim - 1; axis >= 0; --axis) {
    if (view.shape[axis] == 0) return true;
    if (view.shape[axis] != 1 && view.strides[axis] != expected) return false;
    expected *= view.shape[axis];
  }
  return true;
}

// Copies the part from `axis` on, C-contiguous; gives where the next one goes.
char* copy_part(const DLTensor& view, int32_t axis, const char* from, size_t element, char* to) {
  if (axis == view.ndim) {
    std::memcpy(to, from, element);
    return to + element;
  }
  for (int64_t i = 0; i < view.shape[axis]; ++i) {
    const int64_t offset = i * view.strides[axis] * static_cast<int64_t>(element);
    to = copy_part(view, axis + 1, from + offset, element, to);
  }
  return to;
}

}  // namespace

Outputs::Outputs(std::vector<aot::Tensor> tensors) : tensors_(std::move(tensors)) {
  for (aot::Tensor& tensor : tensors_) {
    const DLTensor& view = tensor.view();
    if (is_contiguous(view)) continue;
    const size_t element = view.dtype.bits / 8;
    copies_.emplace_back(static_cast<size_t>(tensor.elements()) * element);
    copy_part(view, 0, static_cast<const char*>(tensor.raw()), element, copies_.back().data());
    tensor = aot::Tensor::borrow(copies_.back().data(), tensor.dtype(), tensor.shape(), {});
  }
}

OutputRows::OutputRows(const Outcome& outcome, size_t index)
    : shape((*outcome.outputs)[index].shape()), data((*outcome.outputs)[index].raw()) {
  const aot::Tensor& tensor = (*outcome.outputs)[index];
  bytes = static_cast<size_t>(tensor.elements()) * (tensor.dtype().bits / 8);
  if (outcome.rows == -1) return;
  const size_t row = bytes / static_cast<size_t>(shape[0]);
  data = static_cast<const char*>(data) + row * static_cast<size_t>(outcome.first_row);
  shape[0] = outcome.rows;
  bytes = row * static_cast<size_t>(outcome.rows);
}

}  // namespace serve
