// An instance of a model: one session, on the CPU or a GPU.
#ifndef AOT_TRITON_INSTANCE_H_
#define AOT_TRITON_INSTANCE_H_

#include <cstdint>
#include <vector>

#include "model.h"
#include "requests.h"

namespace triton_aot {

class Instance {
 public:
  // A session for the instance's kind and device, with the parameters "num_threads" and "isa".
  Instance(TRITONBACKEND_ModelInstance* instance, const Model& model);

  // Answers every request, whatever happens, and releases it.
  void execute(TRITONBACKEND_Request** requests, uint32_t count);

 private:
  void run_together(const std::vector<Request*>& group);
  void run(const std::vector<Request*>& group);
  std::vector<std::vector<Request*>> groups(std::vector<Request>& requests) const;

  TRITONBACKEND_ModelInstance* instance_;
  const Model& model_;
  aot::Session session_;
};

}  // namespace triton_aot

#endif  // AOT_TRITON_INSTANCE_H_
