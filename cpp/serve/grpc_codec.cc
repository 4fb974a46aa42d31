#include "grpc_codec.h"

#include <cstring>
#include <limits>

namespace serve {
namespace {

using inference::InferTensorContents;
using inference::ModelInferRequest;
using Tensor = ModelInferRequest::InferInputTensor;
using Memory = std::shared_ptr<std::vector<char>>;

[[noreturn]] void fail(const std::string& what) { throw aot::Error(AOT_INVALID_ARGUMENT, what); }

// Elements of the field that the protocol has for their type, as elements of T.
template <typename T, typename Field>
Memory narrow(const Field& field, const std::string& name) {
  auto memory = std::make_shared<std::vector<char>>(static_cast<size_t>(field.size()) * sizeof(T));
  char* to = memory->data();
  for (const auto& value : field) {
    const T element = static_cast<T>(value);
    if constexpr (std::is_integral_v<T>) {
      if (static_cast<decltype(+value)>(element) != +value) {
        fail("input '" + name + "': " + std::to_string(value) + " does not fit its type");
      }
    }
    std::memcpy(to, &element, sizeof(T));
    to += sizeof(T);
  }
  return memory;
}

Memory read_contents(const Datatype& type, const InferTensorContents& contents,
                     const std::string& name) {
  switch (type.dtype.code) {
    case kDLBool:
      return narrow<bool>(contents.bool_contents(), name);
    case kDLInt:
      return type.dtype.bits == 8    ? narrow<int8_t>(contents.int_contents(), name)
             : type.dtype.bits == 16 ? narrow<int16_t>(contents.int_contents(), name)
             : type.dtype.bits == 32 ? narrow<int32_t>(contents.int_contents(), name)
                                     : narrow<int64_t>(contents.int64_contents(), name);
    case kDLUInt:
      return type.dtype.bits == 8    ? narrow<uint8_t>(contents.uint_contents(), name)
             : type.dtype.bits == 16 ? narrow<uint16_t>(contents.uint_contents(), name)
             : type.dtype.bits == 32 ? narrow<uint32_t>(contents.uint_contents(), name)
                                     : narrow<uint64_t>(contents.uint64_contents(), name);
    default:
      break;
  }
  if (!type.json) fail("input '" + name + "' is " + type.name + ": send raw_input_contents");
  return type.dtype.bits == 32 ? narrow<float>(contents.fp32_contents(), name)
                               : narrow<double>(contents.fp64_contents(), name);
}

void read_input(const Contract& contract, const ModelInferRequest& message, int position,
                std::vector<bool>& given, InferRequest& request) {
  const Tensor& tensor = message.inputs(position);
  const size_t index = contract.input(tensor.name());
  const TensorSpec& spec = contract.inputs[index];
  const std::string& name = tensor.name();
  if (given[index]) fail("input '" + name + "' is given twice");
  given[index] = true;
  if (tensor.datatype() != spec.type->name) {
    fail("input '" + name + "' must be " + spec.type->name + ", not " + tensor.datatype() +
         (tensor.datatype() == "BYTES" ? ": packages have no strings" : ""));
  }
  if (tensor.parameters().count("shared_memory_region") != 0) {
    throw aot::Error(AOT_UNSUPPORTED, "'" + name + "': this server has no shared memory regions");
  }
  Input& input = request.inputs[index];
  input.shape.assign(tensor.shape().begin(), tensor.shape().end());
  input.bytes = tensor_bytes(*spec.type, input.shape, name);
  size_t bytes = 0;
  if (message.raw_input_contents_size() > 0) {
    const std::string& raw = message.raw_input_contents(position);
    input.data = raw.data();
    bytes = raw.size();
  } else {
    Memory memory = read_contents(*spec.type, tensor.contents(), name);
    input.data = memory->data();
    bytes = memory->size();
    request.storage.push_back(std::move(memory));
  }
  if (bytes != input.bytes) {
    const size_t element = spec.type->size();
    fail("input '" + name + "': the shape has " + std::to_string(input.bytes / element) +
         " elements, data has " + std::to_string(bytes / element) + " (" + std::to_string(bytes) +
         " bytes)");
  }
}

int64_t read_timeout(const ModelInferRequest& message) {
  const auto found = message.parameters().find("timeout");
  if (found == message.parameters().end()) return 0;
  const inference::InferParameter& given = found->second;
  const bool is_unsigned = given.has_uint64_param();
  const uint64_t us =
      is_unsigned ? given.uint64_param() : static_cast<uint64_t>(given.int64_param());
  constexpr uint64_t kDay = uint64_t{86'400} * 1'000'000;
  if ((!is_unsigned && !given.has_int64_param()) || us > kDay) {
    fail("parameter 'timeout' must be microseconds, at most a day of them");
  }
  return static_cast<int64_t>(us) * 1000;
}

}  // namespace

InferRequest decode_message(const Contract& contract, const ModelInferRequest& message) {
  InferRequest request;
  request.id = message.id();
  request.timeout_ns = read_timeout(message);
  request.inputs.resize(contract.inputs.size());
  const int raw = message.raw_input_contents_size();
  if (raw != 0 && raw != message.inputs_size()) {
    fail("there are " + std::to_string(message.inputs_size()) + " inputs and " +
         std::to_string(raw) + " raw_input_contents");
  }
  std::vector<bool> given(contract.inputs.size());
  for (int i = 0; i < message.inputs_size(); ++i) read_input(contract, message, i, given, request);
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) fail("input '" + contract.inputs[i].name + "' is missing");
  }
  if (message.outputs_size() == 0) {
    for (size_t i = 0; i < contract.outputs.size(); ++i) request.outputs.push_back({i, true});
  }
  for (const auto& output : message.outputs()) {
    if (output.parameters().count("classification") != 0) {
      throw aot::Error(AOT_UNSUPPORTED,
                       "output '" + output.name() + "': this server does not classify");
    }
    const size_t index = contract.output(output.name());
    for (const Wish& wish : request.outputs) {
      if (wish.index == index) fail("output '" + output.name() + "' is asked for twice");
    }
    request.outputs.push_back({index, true});
  }
  return request;
}

void encode_message(const Contract& contract, const InferRequest& request, const Outcome& outcome,
                    inference::ModelInferResponse* message) {
  message->set_model_name(contract.model);
  message->set_model_version(contract.version);
  message->set_id(request.id);
  for (const Wish& wish : request.outputs) {
    const TensorSpec& spec = contract.outputs[wish.index];
    const OutputRows rows(outcome, wish.index);
    auto* output = message->add_outputs();
    output->set_name(spec.name);
    output->set_datatype(spec.type->name);
    output->mutable_shape()->Add(rows.shape.begin(), rows.shape.end());
    message->add_raw_output_contents(rows.data, rows.bytes);
  }
}

}  // namespace serve
