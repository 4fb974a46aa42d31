#include "model.h"

#include <sstream>
#include <utility>

namespace triton_aot {
namespace {

using nlohmann::json;

constexpr int64_t kCompletedBatch = 64;  // of a package whose batch has no greatest size

json config_of(TRITONBACKEND_Model* model) {
  TRITONSERVER_Message* message = nullptr;
  check(TRITONBACKEND_ModelConfig(model, 1, &message));
  const char* text = nullptr;
  size_t size = 0;
  TRITONSERVER_Error* error = TRITONSERVER_MessageSerializeToJson(message, &text, &size);
  json config = error == nullptr ? json::parse(text, text + size, nullptr, false) : json();
  check(TRITONSERVER_MessageDelete(message));
  check(error);
  if (!config.is_object()) {
    throw Failure(TRITONSERVER_ERROR_INTERNAL, "the model's configuration is no JSON object");
  }
  return config;
}

const aot_dim_info* first_dim(const aot_tensor_info& info) { return aot_tensor_dim(&info, 0); }

// The common first dimension of all inputs and outputs, or nullptr.
const aot_dim_info* batch_of(const aot::Package& package) {
  if (package.state_count() != 0 || package.input_count() == 0) return nullptr;
  const aot_dim_info* first = first_dim(package.input(0));
  const auto leads = [first](const aot_tensor_info& info) {
    const aot_dim_info* dim = first_dim(info);
    return dim != nullptr && dim->size == -1 && dim->multiple_of == 1 && info.changed == 0 &&
           std::string(dim->label) == first->label;
  };
  for (size_t i = 0; i < package.input_count(); ++i) {
    if (!leads(package.input(i))) return nullptr;
  }
  for (size_t i = 0; i < package.output_count(); ++i) {
    if (!leads(package.output(i))) return nullptr;
  }
  return first;
}

json tensor_config(const aot_tensor_info& info, bool batched) {
  const char* type = nullptr;
  datatype_of(info.dtype, &type);
  json dims = json::array();
  for (int32_t axis = batched ? 1 : 0; axis < info.ndim; ++axis) {
    dims.push_back(aot_tensor_dim(&info, static_cast<size_t>(axis))->size);
  }
  return {{"name", info.name}, {"data_type", type}, {"dims", dims}};
}

bool empty(const json& config, const char* name) {
  const auto found = config.find(name);
  return found == config.end() || found->empty();
}

}  // namespace

Model::Model(TRITONBACKEND_Model* model) : config_(config_of(model)), package_(open(model)) {
  bool asked = false;
  check(TRITONBACKEND_ModelAutoCompleteConfig(model, &asked));
  if (asked) complete(model);
  check_tensors("input", package_.input_count(), &aot::Package::input);
  check_tensors("output", package_.output_count(), &aot::Package::output);
  check_batch();
}

void Model::check_batch() {
  const int64_t most = config_.value("max_batch_size", int64_t{0});
  if (most <= 0) return;
  const aot_dim_info* batch = batch_of(package_);
  if (batch == nullptr) {
    throw Failure(TRITONSERVER_ERROR_INVALID_ARG,
                  "max_batch_size must be 0: the package has no common free first dimension of all "
                  "inputs and outputs, or a run leaves something behind");
  }
  if (batch->max != -1 && most > batch->max) {
    throw Failure(TRITONSERVER_ERROR_INVALID_ARG, "max_batch_size is " + std::to_string(most) +
                                                      "; the package takes at most " +
                                                      std::to_string(batch->max) + " rows");
  }
  joins_ = true;
}

aot::Package Model::open(TRITONBACKEND_Model* model) const {
  TRITONBACKEND_ArtifactType kind;
  const char* folder = nullptr;
  uint64_t version = 0;
  check(TRITONBACKEND_ModelRepository(model, &kind, &folder));
  check(TRITONBACKEND_ModelVersion(model, &version));
  std::string file = config_.value("default_model_filename", "");
  if (file.empty()) file = "model.pkg";
  aot::PackageOptions options;
  const std::string verify = parameter("verify");
  if (verify == "full") options.verify = AOT_VERIFY_FULL;
  if (verify == "lazy") options.verify = AOT_VERIFY_LAZY;
  std::istringstream keys(parameter("keys"));
  for (std::string key; keys >> key;) options.policy.keys.push_back(key);
  const std::string path = std::string(folder) + "/" + std::to_string(version) + "/" + file;
  return aot::Package::open(path, options).value();
}

void Model::complete(TRITONBACKEND_Model* model) {
  const aot_dim_info* batch = batch_of(package_);
  const bool fresh = empty(config_, "input") && empty(config_, "output");
  if (fresh && batch != nullptr && config_.value("max_batch_size", 0) == 0) {
    config_["max_batch_size"] = batch->max == -1 ? kCompletedBatch : batch->max;
    if (!config_.contains("dynamic_batching")) config_["dynamic_batching"] = json::object();
  }
  const bool batched = config_.value("max_batch_size", 0) > 0;
  const auto fill = [&](const char* name, size_t count, auto at) {
    if (!empty(config_, name)) return;
    config_[name] = json::array();
    for (size_t i = 0; i < count; ++i) config_[name].push_back(tensor_config(at(i), batched));
  };
  fill("input", package_.input_count(), [&](size_t i) { return package_.input(i); });
  fill("output", package_.output_count(), [&](size_t i) { return package_.output(i); });
  const std::string text = config_.dump();
  TRITONSERVER_Message* message = nullptr;
  check(TRITONSERVER_MessageNewFromSerializedJson(&message, text.data(), text.size()));
  TRITONSERVER_Error* error = TRITONBACKEND_ModelSetConfig(model, 1, message);
  check(TRITONSERVER_MessageDelete(message));
  check(error);
}

void Model::check_tensors(const char* kind, size_t count,
                          const aot_tensor_info& (aot::Package::*at)(size_t) const) const {
  for (const json& row : config_.value(kind, json::array())) {
    const std::string name = row.value("name", "");
    bool found = false;
    for (size_t i = 0; i < count && !found; ++i) found = name == (package_.*at)(i).name;
    if (!found) {
      throw Failure(TRITONSERVER_ERROR_INVALID_ARG, "the configuration has an " +
                                                        std::string(kind) + " '" + name +
                                                        "', which the package does not have");
    }
  }
}

std::string Model::parameter(const char* name) const {
  const auto parameters = config_.find("parameters");
  if (parameters == config_.end() || !parameters->contains(name)) return "";
  return (*parameters)[name].value("string_value", "");
}

}  // namespace triton_aot
