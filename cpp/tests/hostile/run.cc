#include "hostile/run.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "aot/abi.h"
#include "dtype.h"
#include "error.h"
#include "expr.h"
#include "json_text.h"

namespace aot_hostile {
namespace {

using aot_test::json;

constexpr size_t kPage = 4096;
constexpr size_t kMostMemory = size_t{64} << 20;  // of one session
constexpr int64_t kMostTurns = 1000;
constexpr int64_t kMostTime = 1'000'000'000;  // nanoseconds
constexpr int64_t kMostElements = 1 << 16;    // of an input

size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

// Memory that ends where a page begins that nobody may touch.
class Guarded {
 public:
  Guarded(size_t size, size_t alignment) : size_(round_up(std::max<size_t>(size, 1), kPage)) {
    base_ = static_cast<uint8_t*>(
        ::mmap(nullptr, size_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    ::mprotect(base_ + kPage, size_, PROT_READ | PROT_WRITE);
    data_ = base_ + kPage + size_ - round_up(std::max<size_t>(size, 1), alignment);
  }
  ~Guarded() { ::munmap(base_, size_ + 2 * kPage); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  uint8_t* data() const { return data_; }

 private:
  size_t size_;
  uint8_t* base_;
  uint8_t* data_;
};

// The session's memory: guarded, and no more than a limit.
struct Memory {
  size_t used = 0;
  std::vector<std::unique_ptr<Guarded>> blocks;

  static void* allocate(void* context, size_t size, size_t alignment) {
    auto* self = static_cast<Memory*>(context);
    if (size > kMostMemory || self->used + size > kMostMemory) return nullptr;
    self->used += size;
    self->blocks.push_back(std::make_unique<Guarded>(size, alignment));
    return self->blocks.back()->data();
  }
  static void release(void* context, void* data, size_t size, size_t /*alignment*/) {
    auto* self = static_cast<Memory*>(context);
    self->used -= size;
    const auto found = std::find_if(self->blocks.begin(), self->blocks.end(),
                                    [data](const auto& block) { return block->data() == data; });
    if (found != self->blocks.end()) self->blocks.erase(found);
  }
};

int code_of(aot_status* status) {
  if (status == nullptr) return AOT_OK;
  int code = aot_status_code(status);
  if (std::strstr(aot_status_message(status), "the GPU is lost") != nullptr) code = kLost;
  aot_status_free(status);
  return code;
}

struct Input {
  std::vector<int64_t> shape;
  std::unique_ptr<Guarded> data;
  DLTensor tensor{};
};

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size < 0 || size > kMostElements) return -1;
    count *= size;
    if (count > kMostElements) return -1;
  }
  return count;
}

void fill(uint8_t* data, int64_t count, const aot_rt::DType& dtype, Random* random) {
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* at = data + i * dtype.size;
    const auto small = static_cast<int64_t>(pick(random, 5));
    const float real = static_cast<float>(small) - 2.0f;
    if (std::strcmp(dtype.name, "float32") == 0) {
      std::memcpy(at, &real, sizeof(real));
    } else if (std::strcmp(dtype.name, "bool") == 0) {
      *at = static_cast<uint8_t>(small % 2);
    } else {
      std::memset(at, 0, static_cast<size_t>(dtype.size));
      *at = static_cast<uint8_t>(small);
    }
  }
}

// Inputs as the plan describes them, for these dims; nothing when it is not clear what they are.
std::optional<std::vector<Input>> make_inputs(const json& plan, const std::vector<int64_t>& dims,
                                              Random* random) {
  std::vector<std::string> names;
  for (const json& dim : plan.at("dims")) names.push_back(dim.at("name").get<std::string>());
  std::vector<Input> inputs;
  for (const json& spec : plan.at("inputs")) {
    const aot_rt::DType* dtype = aot_rt::find_dtype(spec.at("dtype").get<std::string>());
    if (dtype == nullptr) return {};
    Input input;
    for (const json& size : spec.at("shape")) {
      const aot_rt::Field field(size, "size");
      input.shape.push_back(aot_rt::Expr::parse(field, names).eval(dims.data()));
    }
    const int64_t count = product(input.shape);
    if (count < 0) return {};
    const auto bytes = static_cast<size_t>(count * dtype->size);
    input.data = std::make_unique<Guarded>(bytes, static_cast<size_t>(dtype->size));
    fill(input.data->data(), count, *dtype, random);
    input.tensor.data = input.data->data();
    input.tensor.device = {kDLCPU, 0};
    input.tensor.dtype = aot_rt::to_dlpack(*dtype);
    input.tensor.ndim = static_cast<int32_t>(input.shape.size());
    inputs.push_back(std::move(input));
  }
  for (Input& input : inputs) input.tensor.shape = input.shape.data();
  return inputs;
}

// Values for the dims: small ones that the plan allows.
std::vector<int64_t> choose_dims(const json& plan, size_t turn, Random* random) {
  std::vector<int64_t> dims;
  for (const json& dim : plan.at("dims")) {
    const int64_t least = dim.at("min").get<int64_t>();
    const int64_t multiple = std::clamp<int64_t>(dim.at("multiple_of").get<int64_t>(), 1, 1 << 20);
    int64_t most = dim.at("max").is_null() ? 64 : dim.at("max").get<int64_t>();
    most = std::min<int64_t>(most, 64);
    const auto more = static_cast<int64_t>(turn == 0 ? 2 : pick(random, 64));
    dims.push_back(std::min<int64_t>(std::max<int64_t>(least + more, 0), most) / multiple *
                   multiple);
  }
  return dims;
}

// Reads every byte that an output says it has.
void read_all(const DLTensor& tensor) {
  volatile uint8_t sum = 0;
  int64_t last = tensor.dtype.bits / 8;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return;
    last += (tensor.shape[i] - 1) * tensor.strides[i] * (tensor.dtype.bits / 8);
  }
  const auto* data = static_cast<const uint8_t*>(tensor.data) + tensor.byte_offset;
  for (int64_t i = 0; i < last; ++i) sum = static_cast<uint8_t>(sum + data[i]);
}

int run_once(aot_session* session, const std::vector<Input>& inputs, size_t output_count) {
  std::vector<const DLTensor*> tensors;
  for (const Input& input : inputs) tensors.push_back(&input.tensor);
  std::vector<DLManagedTensor*> outputs(output_count, nullptr);
  const int code = code_of(aot_session_run(session, tensors.data(), tensors.size(), outputs.data(),
                                           outputs.size(), nullptr));
  if (code != AOT_OK) return code;
  for (DLManagedTensor* output : outputs) {
    read_all(output->dl_tensor);
    output->deleter(output);
  }
  return code;
}

int run_session(aot_package* package, aot_session* session, const json& plan, Random* random) {
  int first = -1;
  for (size_t turn = 0; turn < 3; ++turn) {
    std::optional<std::vector<Input>> inputs;
    try {
      inputs = make_inputs(plan, choose_dims(plan, turn, random), random);
    } catch (const aot_rt::Error&) {
      continue;  // a shape that is no expression
    } catch (const json::exception&) {
      continue;  // not where it is expected
    }
    if (!inputs) continue;
    const int code = run_once(session, *inputs, aot_package_output_count(package));
    if (code == kLost) return code;
    if (first < 0 || code == AOT_OK) first = code;
  }
  return first;
}

// Gives every weight that can be replaced zeros, and runs again with what follows from them.
void replace_weights(aot_package* package, const json& plan) {
  if (!plan.contains("weights")) return;
  const json& weights = plan.at("weights");
  if (!weights.is_array() || weights.empty()) return;
  std::vector<Input> values;
  std::vector<std::string> names;
  try {
    for (const json& weight : weights) {
      Input value;
      const aot_rt::DType* dtype = aot_rt::find_dtype(weight.at("dtype").get<std::string>());
      value.shape = weight.at("shape").get<std::vector<int64_t>>();
      const int64_t count = product(value.shape);
      if (dtype == nullptr || count < 0) return;
      const auto bytes = static_cast<size_t>(count * dtype->size);
      value.data = std::make_unique<Guarded>(bytes, static_cast<size_t>(dtype->size));
      value.tensor.data = value.data->data();
      value.tensor.device = {kDLCPU, 0};
      value.tensor.dtype = aot_rt::to_dlpack(*dtype);
      value.tensor.ndim = static_cast<int32_t>(value.shape.size());
      values.push_back(std::move(value));
      names.push_back(weight.at("name").get<std::string>());
    }
  } catch (const json::exception&) {
    return;
  }
  std::vector<aot_weight_update> updates(values.size());
  std::vector<const aot_weight_update*> list;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].tensor.shape = values[i].shape.data();
    updates[i].struct_size = sizeof(updates[i]);
    updates[i].name = names[i].c_str();
    updates[i].value = &values[i].tensor;
    list.push_back(&updates[i]);
  }
  code_of(aot_package_replace_weights(package, list.data(), list.size(), nullptr));
}

}  // namespace

int open_and_run(const std::string& file, const json& plan, const std::string& device,
                 Random* random) {
  const Guarded bytes(file.size(), 64);
  std::memcpy(bytes.data(), file.data(), file.size());
  aot_package* package = nullptr;
  int code = code_of(aot_package_open_memory(bytes.data(), file.size(), nullptr, &package));
  if (code != AOT_OK) return code;
  Memory memory;
  const aot_allocator allocator{sizeof(aot_allocator), &memory, Memory::allocate, Memory::release};
  aot_session_options options{};
  options.struct_size = sizeof(options);
  options.num_threads = pick(random, 8) == 0 ? 2 : 1;
  const bool on_cpu = device == "cpu";  // elsewhere the limits alone bound it
  if (on_cpu) options.allocator = &allocator;
  options.host_outputs = 1;
  aot_limits limits{};
  limits.struct_size = sizeof(limits);
  limits.arena_bytes = kMostMemory;
  limits.state_bytes = kMostMemory;
  limits.output_bytes = kMostMemory;
  limits.loop_turns = kMostTurns;
  limits.run_ns = kMostTime;
  options.limits = &limits;
  aot_session* session = nullptr;
  code = code_of(aot_session_create(package, device.c_str(), &options, &session));
  if (code == AOT_OK) {
    code = run_session(package, session, plan, random);
    replace_weights(package, plan);
    const int again = run_session(package, session, plan, random);
    if (again == AOT_OK || again == kLost) code = again;
    code_of(aot_session_reset(session));
    aot_session_free(session);
  }
  aot_package_free(package);
  return code;
}

}  // namespace aot_hostile
