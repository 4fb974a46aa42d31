#include "v2_json.h"

#include <algorithm>

#include "json_numbers.h"

namespace serve {
namespace {

using nlohmann::json;

constexpr int64_t kMaxTimeoutUs = int64_t{86'400} * 1'000'000;  // a day

[[noreturn]] void fail(const std::string& what) { throw aot::Error(AOT_INVALID_ARGUMENT, what); }

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Arrays and objects within each other: more than tensors have, and few enough that brackets alone
// do not take memory that nobody has set aside.
void check_depth(const char* text, size_t size) {
  constexpr int kMaxDepth = 70;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < size; ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) fail("the body is nested too deeply");
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// The field as text; `owner` is for the message.
std::string text(const json& object, const char* field, const std::string& owner) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) {
    fail(owner + " needs a string '" + field + "'");
  }
  return found->get<std::string>();
}

// The object of parameters, which may be missing.
const json& parameters(const json& object) {
  static const json empty = json::object();
  const auto found = object.find("parameters");
  if (found == object.end()) return empty;
  if (!found->is_object()) fail("'parameters' must be an object");
  return *found;
}

bool flag(const json& object, const char* name, bool otherwise) {
  const auto found = object.find(name);
  if (found == object.end()) return otherwise;
  if (!found->is_boolean()) fail(std::string("parameter '") + name + "' must be true or false");
  return found->get<bool>();
}

void refuse_shared_memory(const json& given, const std::string& name) {
  if (given.contains("shared_memory_region")) {
    throw aot::Error(AOT_UNSUPPORTED, "'" + name + "': this server has no shared memory regions");
  }
}

std::vector<int64_t> read_shape(const json& tensor, const std::string& name) {
  const auto found = tensor.find("shape");
  if (found == tensor.end() || !found->is_array()) {
    fail("input '" + name + "' needs a 'shape', an array of sizes");
  }
  std::vector<int64_t> shape;
  for (const json& size : *found) {
    if (!size.is_number_integer()) fail("input '" + name + "': a size is no whole number");
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

// Reads inputs, of which some have their bytes behind the JSON, in order.
class InputReader {
 public:
  InputReader(const Contract& contract, const std::shared_ptr<const std::string>& body,
              size_t json_bytes, InferRequest& request)
      : contract_(contract), body_(body), at_(json_bytes), request_(request) {
    request_.inputs.resize(contract.inputs.size());
    given_.resize(contract.inputs.size());
  }

  void read(const json& tensor) {
    if (!tensor.is_object()) fail("an input must be an object");
    const std::string name = text(tensor, "name", "an input");
    const size_t index = contract_.input(name);
    const TensorSpec& spec = contract_.inputs[index];
    if (given_[index]) fail("input '" + name + "' is given twice");
    given_[index] = true;
    const std::string datatype = text(tensor, "datatype", "input '" + name + "'");
    if (datatype != spec.type->name) {
      fail("input '" + name + "' must be " + spec.type->name + ", not " + datatype +
           (datatype == "BYTES" ? ": packages have no strings" : ""));
    }
    const json& extras = parameters(tensor);
    refuse_shared_memory(extras, name);
    Input& input = request_.inputs[index];
    input.shape = read_shape(tensor, name);
    input.bytes = tensor_bytes(*spec.type, input.shape, name);
    const auto size = extras.find("binary_data_size");
    if (size != extras.end()) {
      if (tensor.contains("data")) fail("input '" + name + "' has both data and bytes");
      input.data = take(*size, input.bytes, name);
      return;
    }
    const auto data = tensor.find("data");
    if (data == tensor.end()) fail("input '" + name + "' has neither data nor binary_data_size");
    auto numbers = read_numbers(*data, *spec.type, input.shape, name);
    input.data = numbers->data();
    request_.storage.push_back(std::move(numbers));
  }

  void finish() const {
    for (size_t i = 0; i < given_.size(); ++i) {
      if (!given_[i]) fail("input '" + contract_.inputs[i].name + "' is missing");
    }
    if (at_ != body_->size()) {
      fail("the body has " + std::to_string(body_->size() - at_) +
           " bytes more than its inputs say");
    }
  }

 private:
  const char* take(const json& size, size_t bytes, const std::string& name) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() != bytes) {
      fail("input '" + name + "': its shape has " + std::to_string(bytes) +
           " bytes, binary_data_size is " + dump(size));
    }
    if (bytes > body_->size() - at_) fail("input '" + name + "': the body ends within its bytes");
    const char* data = body_->data() + at_;
    at_ += bytes;
    return data;
  }

  const Contract& contract_;
  const std::shared_ptr<const std::string>& body_;
  size_t at_;
  InferRequest& request_;
  std::vector<bool> given_;
};

void read_outputs(const Contract& contract, const json& given, bool binary, InferRequest& request) {
  const auto outputs = given.find("outputs");
  if (outputs == given.end() || outputs->empty()) {
    for (size_t i = 0; i < contract.outputs.size(); ++i) request.outputs.push_back({i, binary});
    return;
  }
  if (!outputs->is_array()) fail("'outputs' must be an array");
  for (const json& output : *outputs) {
    if (!output.is_object()) fail("an output must be an object");
    const std::string name = text(output, "name", "an output");
    const size_t index = contract.output(name);
    const json& extras = parameters(output);
    refuse_shared_memory(extras, name);
    if (extras.contains("classification")) {
      throw aot::Error(AOT_UNSUPPORTED, "output '" + name + "': this server does not classify");
    }
    for (const Wish& wish : request.outputs) {
      if (wish.index == index) fail("output '" + name + "' is asked for twice");
    }
    request.outputs.push_back({index, flag(extras, "binary_data", binary)});
  }
}

}  // namespace

InferRequest decode_infer(const Contract& contract, const std::shared_ptr<const std::string>& body,
                          size_t json_bytes) {
  if (json_bytes > body->size()) {
    fail("Inference-Header-Content-Length is " + std::to_string(json_bytes) +
         ", the body has only " + std::to_string(body->size()) + " bytes");
  }
  check_depth(body->data(), json_bytes);
  json given;
  try {
    given = json::parse(body->begin(), body->begin() + static_cast<std::ptrdiff_t>(json_bytes));
  } catch (const json::parse_error& error) {
    fail(std::string("the body is no JSON: ") + error.what());
  }
  if (!given.is_object()) fail("the body must be a JSON object");
  InferRequest request;
  request.storage.push_back(std::const_pointer_cast<std::string>(body));
  const auto id = given.find("id");
  if (id != given.end()) {
    if (!id->is_string()) fail("'id' must be a string");
    request.id = id->get<std::string>();
  }
  const json& extras = parameters(given);
  const auto timeout = extras.find("timeout");
  if (timeout != extras.end()) {
    if (!timeout->is_number_unsigned() || *timeout > kMaxTimeoutUs) {
      fail("parameter 'timeout' must be microseconds, at most a day of them");
    }
    request.timeout_ns = timeout->get<int64_t>() * 1000;
  }
  const auto inputs = given.find("inputs");
  if (inputs == given.end() || !inputs->is_array()) fail("the request needs an array 'inputs'");
  InputReader reader(contract, body, json_bytes, request);
  for (const json& tensor : *inputs) reader.read(tensor);
  reader.finish();
  read_outputs(contract, given, flag(extras, "binary_data_output", false), request);
  return request;
}

InferReply encode_infer(const Contract& contract, const InferRequest& request,
                        const Outcome& outcome) {
  InferReply reply;
  std::string& text = reply.body;
  text =
      "{\"model_name\":" + dump(contract.model) + ",\"model_version\":\"" + contract.version + "\"";
  if (!request.id.empty()) text += ",\"id\":" + dump(request.id);
  text += ",\"outputs\":[";
  std::vector<std::pair<const char*, size_t>> tail;
  bool first = true;
  for (const Wish& wish : request.outputs) {
    const TensorSpec& spec = contract.outputs[wish.index];
    const OutputRows rows(outcome, wish.index);
    if (!first) text.push_back(',');
    first = false;
    text += "{\"name\":" + dump(spec.name) + ",\"datatype\":\"" + spec.type->name +
            "\",\"shape\":" + dump(rows.shape);
    if (wish.binary) {
      text += ",\"parameters\":{\"binary_data_size\":" + std::to_string(rows.bytes) + "}}";
      tail.emplace_back(static_cast<const char*>(rows.data), rows.bytes);
    } else {
      text += ",\"data\":";
      append_numbers(text, *spec.type, rows.data, rows.bytes / spec.type->size(), spec.name);
      text.push_back('}');
    }
  }
  text += "]}";
  reply.json_bytes = text.size();
  reply.binary = !tail.empty();
  size_t more = 0;
  for (const auto& [data, bytes] : tail) more += bytes;
  text.reserve(text.size() + more);
  for (const auto& [data, bytes] : tail) text.append(data, bytes);
  return reply;
}

json server_metadata() {
  return {{"name", "aot-serve"},
          {"version", aot_runtime_version()},
          {"extensions", {"binary_tensor_data", "model_repository", "model_configuration"}}};
}

json model_metadata(const Contract& contract, const std::vector<std::string>& versions) {
  const auto tensors = [](const std::vector<TensorSpec>& specs) {
    json list = json::array();
    for (const TensorSpec& spec : specs) {
      json shape = json::array();
      for (const Dim& dim : spec.dims) shape.push_back(dim.size);
      list.push_back({{"name", spec.name}, {"datatype", spec.type->name}, {"shape", shape}});
    }
    return list;
  };
  return {{"name", contract.model},
          {"versions", versions},
          {"platform", "aot_package"},
          {"inputs", tensors(contract.inputs)},
          {"outputs", tensors(contract.outputs)}};
}

json model_config(const Model& model) {
  const Contract& contract = *model.contract();
  const Config& config = model.config();
  json latency = json::object();
  for (const auto& [rows, seconds] : model.latency().points()) {
    latency[std::to_string(rows)] = seconds * 1e6;
  }
  const auto tensors = [](const std::vector<TensorSpec>& specs) {
    json list = json::array();
    for (const TensorSpec& spec : specs) {
      json dims = json::array();
      for (const Dim& dim : spec.dims) dims.push_back(dim.size);
      list.push_back({{"name", spec.name},
                      {"data_type", std::string("TYPE_") + spec.type->name},
                      {"dims", dims}});
    }
    return list;
  };
  // In the extension's words 0 says that a batch dimension, if there is one, is in `dims`.
  return {{"name", contract.model},
          {"platform", "aot_package"},
          {"max_batch_size", 0},
          {"input", tensors(contract.inputs)},
          {"output", tensors(contract.outputs)},
          {"instance_group", {{{"count", config.sessions}, {"kind", "KIND_AUTO"}}}},
          {"parameters",
           {{"device", {{"string_value", config.device}}},
            {"threads", {{"string_value", std::to_string(config.threads)}}},
            {"max_batch", {{"string_value", std::to_string(config.max_batch)}}},
            {"max_delay_us", {{"string_value", std::to_string(config.max_delay_us)}}},
            {"max_queue", {{"string_value", std::to_string(config.max_queue)}}},
            {"batch_microseconds", {{"string_value", latency.dump()}}}}}};
}

json index_rows(const std::vector<IndexRow>& rows, bool ready_only) {
  json list = json::array();
  for (const IndexRow& row : rows) {
    if (ready_only && !row.ready) continue;
    list.push_back({{"name", row.name},
                    {"version", row.version},
                    {"state", row.ready ? "READY" : "UNAVAILABLE"},
                    {"reason", row.reason}});
  }
  return list;
}

std::string error_body(const std::string& message) { return dump(json{{"error", message}}); }

}  // namespace serve
