#include "batch.h"

#include <algorithm>
#include <cstring>

namespace serve {

bool can_batch(const Contract& contract) {
  if (contract.has_state || contract.changes_inputs || contract.inputs.empty()) return false;
  if (contract.inputs[0].dims.empty()) return false;
  const std::string& label = contract.inputs[0].dims[0].label;
  const auto leads = [&label](const TensorSpec& spec) {
    return !spec.dims.empty() && spec.dims[0].size == -1 && spec.dims[0].multiple_of == 1 &&
           spec.dims[0].label == label;
  };
  return std::all_of(contract.inputs.begin(), contract.inputs.end(), leads) &&
         std::all_of(contract.outputs.begin(), contract.outputs.end(), leads);
}

void set_batch_key(const Contract& contract, Call& call) {
  std::string key;
  int64_t rows = -1;
  for (size_t i = 0; i < contract.inputs.size(); ++i) {
    const std::vector<int64_t>& shape = call.request.inputs[i].shape;
    const std::vector<Dim>& dims = contract.inputs[i].dims;
    if (shape.size() != dims.size() || (rows != -1 && shape[0] != rows)) return;
    rows = shape[0];
    if (rows < std::max<int64_t>(dims[0].min, 1)) return;
    if (dims[0].max != -1 && rows > dims[0].max) return;
    key.append(reinterpret_cast<const char*>(shape.data() + 1),
               (shape.size() - 1) * sizeof(int64_t));
    key.push_back(';');
  }
  call.rows = rows;
  call.key = std::move(key);
}

void Batch::add(const std::shared_ptr<Call>& call) {
  calls_.push_back(call);
  rows_ += call->rows;
  // All that came before may have left while the batch was waiting for this one.
  if (alive_ == 0) aot_cancellation_reset(cancellation_);
  ++alive_;
  call->batch = this;
}

void Batch::leave() {
  if (--alive_ == 0) aot_cancellation_cancel(cancellation_);
}

Clock::time_point Batch::deadline() const {
  Clock::time_point latest = Clock::time_point::min();
  for (const auto& call : calls_) latest = std::max(latest, call->deadline);
  return latest;
}

std::vector<aot::Tensor> Batch::join(const Contract& contract,
                                     std::vector<std::vector<char>>& memory) {
  std::vector<aot::Tensor> tensors;
  memory.resize(contract.inputs.size());
  for (size_t i = 0; i < contract.inputs.size(); ++i) {
    std::vector<int64_t> shape = calls_[0]->request.inputs[i].shape;
    const void* data = calls_[0]->request.inputs[i].data;
    if (calls_.size() > 1) {
      size_t bytes = 0;
      for (const auto& call : calls_) bytes += call->request.inputs[i].bytes;
      if (memory[i].size() < bytes) memory[i].resize(bytes);
      char* to = memory[i].data();
      for (const auto& call : calls_) {
        const Input& input = call->request.inputs[i];
        if (input.bytes != 0) std::memcpy(to, input.data, input.bytes);
        to += input.bytes;
      }
      data = memory[i].data();
      shape[0] = rows_;
    }
    const DLDataType dtype = contract.inputs[i].type->dtype;
    tensors.push_back(aot::Tensor::borrow(data, dtype, std::move(shape), {}));
  }
  return tensors;
}

}  // namespace serve
