// The Open Inference Protocol's objects as JSON, with the extension for binary tensors.
#ifndef AOT_SERVE_V2_JSON_H_
#define AOT_SERVE_V2_JSON_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "call.h"
#include "contract.h"
#include "model.h"
#include "repository.h"

namespace serve {

// A request to run. The first `json_bytes` of the body are JSON, the rest the bytes of tensors; the
// inputs may lie in the body, which they keep. Throws aot::Error.
InferRequest decode_infer(const Contract& contract, const std::shared_ptr<const std::string>& body,
                          size_t json_bytes);

struct InferReply {
  std::string body;
  size_t json_bytes = 0;
  bool binary = false;  // bytes follow the JSON
};

// Throws aot::Error for numbers that JSON does not have.
InferReply encode_infer(const Contract& contract, const InferRequest& request,
                        const Outcome& outcome);

nlohmann::json server_metadata();
nlohmann::json model_metadata(const Contract& contract, const std::vector<std::string>& versions);
nlohmann::json model_config(const Model& model);
nlohmann::json index_rows(const std::vector<IndexRow>& rows, bool ready_only);

// {"error": "…"}
std::string error_body(const std::string& message);

}  // namespace serve

#endif  // AOT_SERVE_V2_JSON_H_
