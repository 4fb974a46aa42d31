// A model of Triton's: an open package, and what its configuration says.
#ifndef AOT_TRITON_MODEL_H_
#define AOT_TRITON_MODEL_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "triton_types.h"

namespace triton_aot {

// Shared by the model's instances, which run at the same time.
class Model {
 public:
  // Opens REPOSITORY/VERSION/model.pkg (or default_model_filename). Completes the configuration
  // where the server asks for it, and checks it against the package's contract.
  explicit Model(TRITONBACKEND_Model* model);

  const aot::Package& package() const { return package_; }

  // True when requests may be run together: Triton's max_batch_size allows it, the first dimension
  // of every input and output is one and the same free size, and runs leave nothing behind.
  bool joins() const { return joins_; }

  // The value of a parameter of the configuration, or "".
  std::string parameter(const char* name) const;

 private:
  aot::Package open(TRITONBACKEND_Model* model) const;
  void complete(TRITONBACKEND_Model* model);
  void check_batch();
  void check_tensors(const char* kind, size_t count,
                     const aot_tensor_info& (aot::Package::*at)(size_t) const) const;

  nlohmann::json config_;
  aot::Package package_;
  bool joins_ = false;
};

}  // namespace triton_aot

#endif  // AOT_TRITON_MODEL_H_
