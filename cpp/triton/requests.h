// One request: its inputs as tensors, and its answer.
#ifndef AOT_TRITON_REQUESTS_H_
#define AOT_TRITON_REQUESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "triton_types.h"

namespace triton_aot {

// One input of one request.
struct Given {
  std::vector<int64_t> shape;
  DLDataType dtype;
  const char* data;
  std::vector<char> copy;  // what `data` is, of an input that comes in several buffers
  size_t bytes;
};

// A request from its arrival until it is released. What goes wrong with it becomes its answer.
class Request {
 public:
  explicit Request(TRITONBACKEND_Request* raw) : raw_(raw) {}

  // Reads the inputs in the order of the package.
  void read(const aot::Package& package);

  // Answers with rows [begin, begin + rows()) of the outputs, or with all of them.
  void answer(const aot::Package& package, const std::vector<aot::Tensor>& outputs, bool part,
              int64_t begin);
  void fail(const std::exception& error);

  // Gives the request back to the server, when it has been answered.
  void release(TRITONBACKEND_ModelInstance* instance, const uint64_t times[4]);

  const std::vector<Given>& inputs() const { return inputs_; }
  bool answered() const { return answered_; }
  // The first size of the first input.
  int64_t rows() const { return inputs_[0].shape[0]; }
  // The same for requests that can be run together; "" for one that must run alone.
  std::string key() const;

 private:
  void send(TRITONBACKEND_Response* response, TRITONSERVER_Error* error);

  TRITONBACKEND_Request* raw_;
  std::vector<Given> inputs_;
  bool answered_ = false;
  bool succeeded_ = false;
};

}  // namespace triton_aot

#endif  // AOT_TRITON_REQUESTS_H_
