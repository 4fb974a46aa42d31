#include "requests.h"

#include <cstring>
#include <utility>

namespace triton_aot {
namespace {

constexpr const char* kOnGpu =
    "in the memory of a GPU; the backend takes and gives host memory (use system shared memory)";

Given given_of(TRITONBACKEND_Input* input, const char* name) {
  TRITONSERVER_DataType datatype;
  const int64_t* shape = nullptr;
  uint32_t rank = 0;
  uint64_t bytes = 0;
  uint32_t buffers = 0;
  check(TRITONBACKEND_InputProperties(input, nullptr, &datatype, &shape, &rank, &bytes, &buffers));
  Given given{{shape, shape + rank}, dtype_of(datatype), nullptr, {}, 0};
  double wanted = static_cast<double>(size_of(given.dtype));
  for (const int64_t size : given.shape) wanted *= static_cast<double>(size);
  if (wanted != static_cast<double>(bytes)) {
    throw Failure(TRITONSERVER_ERROR_INVALID_ARG, "input '" + std::string(name) + "' has " +
                                                      std::to_string(bytes) +
                                                      " bytes, which is not what its shape takes");
  }
  given.bytes = bytes;
  for (uint32_t index = 0; index < buffers; ++index) {
    const void* buffer = nullptr;
    uint64_t size = 0;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t device = 0;
    check(TRITONBACKEND_InputBuffer(input, index, &buffer, &size, &memory, &device));
    if (memory == TRITONSERVER_MEMORY_GPU) {
      throw Failure(TRITONSERVER_ERROR_UNSUPPORTED,
                    "input '" + std::string(name) + "' is " + kOnGpu);
    }
    const char* from = static_cast<const char*>(buffer);
    given.data = from;
    if (buffers > 1) given.copy.insert(given.copy.end(), from, from + size);
  }
  if (buffers > 1) given.data = given.copy.data();
  return given;
}

// Copies rows of an output, or all of it, in C order.
void copy_out(const DLTensor& view, int64_t begin, int64_t end, char* to) {
  const auto size = static_cast<int64_t>(size_of(view.dtype));
  const auto* base = static_cast<const char*>(view.data) + view.byte_offset;
  if (view.strides == nullptr || view.ndim == 0) {
    int64_t row = size;
    for (int32_t axis = 1; axis < view.ndim; ++axis) row *= view.shape[axis];
    const int64_t count = view.ndim == 0 ? size : (end - begin) * row;
    if (count != 0) std::memcpy(to, base + begin * row, static_cast<size_t>(count));
    return;
  }
  int64_t row = 1;
  for (int32_t axis = 1; axis < view.ndim; ++axis) row *= view.shape[axis];
  for (int64_t i = begin * row; i < end * row; ++i, to += size) {
    int64_t rest = i;
    int64_t place = 0;
    for (int32_t axis = view.ndim - 1; axis >= 0; --axis) {
      place += rest % view.shape[axis] * view.strides[axis];
      rest /= view.shape[axis];
    }
    std::memcpy(to, base + place * size, static_cast<size_t>(size));
  }
}

void write_output(TRITONBACKEND_Response* response, const char* name, const aot::Tensor& tensor,
                  bool part, int64_t begin, int64_t rows) {
  const DLTensor& view = tensor.view();
  std::vector<int64_t> shape = tensor.shape();
  const bool cut = part && !shape.empty();
  if (cut) shape[0] = rows;
  uint64_t bytes = size_of(view.dtype);
  for (const int64_t size : shape) bytes *= static_cast<uint64_t>(size);
  TRITONBACKEND_Output* output = nullptr;
  check(TRITONBACKEND_ResponseOutput(response, &output, name, datatype_of(view.dtype), shape.data(),
                                     static_cast<uint32_t>(shape.size())));
  void* buffer = nullptr;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t device = 0;
  check(TRITONBACKEND_OutputBuffer(output, &buffer, bytes, &memory, &device));
  if (memory == TRITONSERVER_MEMORY_GPU) {
    throw Failure(TRITONSERVER_ERROR_UNSUPPORTED,
                  "output '" + std::string(name) + "' is wanted " + kOnGpu);
  }
  const int64_t from = cut ? begin : 0;
  const int64_t to = shape.empty() ? 1 : from + shape[0];
  copy_out(view, from, to, static_cast<char*>(buffer));
}

}  // namespace

void Request::read(const aot::Package& package) {
  for (size_t i = 0; i < package.input_count(); ++i) {
    const char* name = package.input(i).name;
    TRITONBACKEND_Input* input = nullptr;
    check(TRITONBACKEND_RequestInput(raw_, name, &input));
    inputs_.push_back(given_of(input, name));
  }
}

std::string Request::key() const {
  std::string key;
  for (const Given& given : inputs_) {
    if (given.shape.empty() || given.shape[0] != rows() || rows() == 0) return "";
    key.append(reinterpret_cast<const char*>(given.shape.data() + 1),
               (given.shape.size() - 1) * sizeof(int64_t));
    key.append({';', static_cast<char>(given.dtype.code), static_cast<char>(given.dtype.bits)});
  }
  return key;
}

void Request::answer(const aot::Package& package, const std::vector<aot::Tensor>& outputs,
                     bool part, int64_t begin) {
  TRITONBACKEND_Response* response = nullptr;
  check(TRITONBACKEND_ResponseNew(&response, raw_));
  TRITONSERVER_Error* error = nullptr;
  try {
    uint32_t count = 0;
    check(TRITONBACKEND_RequestOutputCount(raw_, &count));
    for (uint32_t i = 0; i < count; ++i) {
      const char* name = nullptr;
      check(TRITONBACKEND_RequestOutputName(raw_, i, &name));
      const size_t index = package.find_output(name).value();
      write_output(response, name, outputs[index], part, begin, part ? rows() : 0);
    }
  } catch (const std::exception& wrong) {
    error = report(wrong);
  }
  send(response, error);
}

void Request::fail(const std::exception& error) {
  TRITONBACKEND_Response* response = nullptr;
  TRITONSERVER_Error* failed = TRITONBACKEND_ResponseNew(&response, raw_);
  answered_ = true;
  if (failed == nullptr) return send(response, report(error));
  log(failed);
}

void Request::send(TRITONBACKEND_Response* response, TRITONSERVER_Error* error) {
  answered_ = true;
  succeeded_ = error == nullptr;
  TRITONSERVER_Error* failed =
      TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
  if (error != nullptr) TRITONSERVER_ErrorDelete(error);
  log(failed);
}

void Request::release(TRITONBACKEND_ModelInstance* instance, const uint64_t times[4]) {
  log(TRITONBACKEND_ModelInstanceReportStatistics(instance, raw_, succeeded_, times[0], times[1],
                                                  times[2], times[3]));
  log(TRITONBACKEND_RequestRelease(raw_, TRITONSERVER_REQUEST_RELEASE_ALL));
}

}  // namespace triton_aot
