#include "cuda_package.h"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>

#include "cuda/driver_abi.h"
#include "error.h"

namespace aot_test {
namespace {

using aot_rt::cuda::CUcontext;
using aot_rt::cuda::CUdeviceptr;
using aot_rt::cuda::CUstream;

struct KernelRow {
  const char* name;
  int parameters;
  int64_t shared;
  bool faults;
  bool waits;
};

// In the order of package_builder's kernels. `row_sum` needs more shared memory than comes unasked.
constexpr KernelRow kKernels[] = {
    {"add_bias", 6, 0, false, true},
    {"scale", 6, 1024, false, true},
    {"row_sum", 5, 96 << 10, false, false},
    {"gather", 7, 0, true, false},
};

void* library() {
  static void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  return handle;
}

template <typename... Args>
void call(const char* symbol, Args... args) {
  using Function = int (*)(Args...);
  const auto function = reinterpret_cast<Function>(dlsym(library(), symbol));
  if (const int result = function(args...)) {
    throw std::runtime_error(std::string(symbol) + ": " + std::to_string(result));
  }
}

// Makes GPU 0's context current, as a library that shares the process would have.
class Current {
 public:
  explicit Current(int gpu = 0) : gpu_(gpu) {
    call("cuInit", 0U);
    CUcontext context = nullptr;
    call("cuDevicePrimaryCtxRetain", &context, gpu_);
    call("cuCtxPushCurrent_v2", context);
  }
  ~Current() {
    CUcontext context = nullptr;
    call("cuCtxPopCurrent_v2", &context);
    call("cuDevicePrimaryCtxRelease_v2", gpu_);
  }

 private:
  int gpu_;
};

json kernel(Builder* builder, const KernelRow& row, const std::string& arch, int64_t scratch) {
  const std::string entry = "kernels/cuda/" + arch + "/" + row.name;
  const std::string cubin = "FAKE " + arch + "\n" + row.name + " " +
                            std::to_string(row.parameters) + (row.waits ? " waits" : "") +
                            "\nend\n";
  builder->add(entry, "U8", json::array({cubin.size()}), cubin);
  return {
      {"name", row.name},   {"entry", entry},           {"sha256", builder->plan["entries"][entry]},
      {"symbol", row.name}, {"threads", 128},           {"shared", row.shared},
      {"scratch", scratch}, {"scratch_alignment", 128}, {"faults", row.faults},
      {"waits", row.waits}};
}

// What row_sum takes for its size.
int64_t row_width(const json& steps) {
  for (const json& step : steps) {
    if (step.contains("kernel") && step["kernel"] == 2) return step["sizes"][0].get<int64_t>();
  }
  return 0;
}

// From work for threads to blocks.
void to_grids(json* steps) {
  for (json& step : *steps) {
    if (!step.contains("work")) continue;  // a control step
    const json work = step["work"];
    for (const char* key : {"work", "grain", "scratch"}) step.erase(key);
    step["grid"] = {work, 1, 1};
    if (step["kernel"] == 1) {  // blocks of 128 elements, which must know where to end
      step["sizes"] = json::array({work});
      step["grid"] = {{"//", {"+", work, 127}, 128}, 1, 1};
    }
  }
}

}  // namespace

void add_cuda(Builder* builder, const std::vector<std::string>& archs) {
  const json cpu = builder->plan["programs"][0];
  const bool small = builder->plan["model"] == "small";
  const int64_t width = small ? row_width(cpu["steps"]) : 0;
  for (const std::string& arch : archs) {
    json program = cpu;
    program["device"] = "cuda";
    program["arch"] = arch;
    program["libraries"] = json::array();
    program["kernels"] = json::array();
    for (const KernelRow& row : kKernels) {
      const bool summing = std::string(row.name) == "row_sum";
      const int64_t scratch = summing && small ? 4 * width : 0;
      program["kernels"].push_back(kernel(builder, row, arch, scratch));
    }
    to_grids(&program["steps"]);
    if (program.contains("weights")) {
      for (json& routine : program["weights"]["routines"]) to_grids(&routine["steps"]);
    }
    builder->plan["programs"].push_back(program);
  }
}

Builder small_cuda_package(int64_t width) {
  Builder builder = small_package(width);
  add_cuda(&builder, {"sm_90"});
  return builder;
}

Builder state_cuda_package() {
  Builder builder = state_package();
  add_cuda(&builder, {"sm_90"});
  return builder;
}

Builder gather_cuda_package() {
  Builder builder = gather_package();
  add_cuda(&builder, {"sm_90"});
  return builder;
}

const FakeControls& fake() {
  using Getter = const FakeControls* (*)();
  static const auto getter = reinterpret_cast<Getter>(dlsym(library(), "fake_cuda_controls"));
  if (getter == nullptr) throw std::runtime_error("libcuda.so.1 is not the fake driver");
  return *getter();
}

CudaRunning::CudaRunning(aot_package* package, aot_session_options options, const char* device)
    : outputs_(aot_package_output_count(package)) {
  options.struct_size = sizeof(options);
  if (aot_status* status = aot_session_create(package, device, &options, &session_)) {
    const aot::Error error = aot::Error::adopt(status);
    throw aot_rt::Error(error.code(), error.what(), error.origin());
  }
}

std::vector<aot::Tensor> CudaRunning::run(const aot::Tensor& input, bool host_outputs,
                                          void* stream) {
  const DLTensor* views[] = {&input.view()};
  std::vector<DLManagedTensorVersioned*> outputs(outputs_);
  aot_run_options options{};
  options.struct_size = sizeof(options);
  options.stream = stream;
  options.host_outputs = host_outputs ? 1 : 0;
  if (aot_status* status =
          aot_session_run_with(session_, views, 1, outputs.data(), outputs_, &options)) {
    const aot::Error error = aot::Error::adopt(status);
    throw aot_rt::Error(error.code(), error.what(), error.origin());
  }
  std::vector<aot::Tensor> result;
  for (DLManagedTensorVersioned* managed : outputs) result.push_back(aot::Tensor::adopt(managed));
  return result;
}

FakeMemory::FakeMemory(size_t bytes, int gpu) {
  const Current current(gpu);
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  call("cuMemAlloc_v2", &address, bytes);
  call("cuStreamCreate", &stream, 0U);
  address_ = address;
  stream_ = stream;
}

FakeMemory::~FakeMemory() {
  const Current current;
  call("cuMemFree_v2", CUdeviceptr{address_});
  call("cuStreamDestroy_v2", static_cast<CUstream>(stream_));
}

void FakeMemory::write(const void* from, size_t bytes, size_t offset) {
  const Current current;
  call("cuMemcpyHtoDAsync_v2", CUdeviceptr{address_ + offset}, from, bytes,
       static_cast<CUstream>(stream_));
}

void FakeMemory::wait() {
  const Current current;
  call("cuStreamSynchronize", static_cast<CUstream>(stream_));
}

FakeStreamOwner::FakeStreamOwner() {
  const Current current;
  CUstream stream = nullptr;
  call("cuStreamCreate", &stream, 0U);
  stream_ = stream;
}

FakeStreamOwner::~FakeStreamOwner() {
  const Current current;
  call("cuStreamDestroy_v2", static_cast<CUstream>(stream_));
}

PinnedFloats::PinnedFloats(const std::vector<float>& values) {
  const Current current;
  void* data = nullptr;
  call("cuMemHostAlloc", &data, values.size() * sizeof(float), 0U);
  data_ = static_cast<float*>(data);
  std::copy(values.begin(), values.end(), data_);
}

PinnedFloats::~PinnedFloats() {
  const Current current;
  call("cuMemFreeHost", static_cast<void*>(data_));
}

std::vector<float> fetch(const aot::Tensor& tensor, void* stream) {
  const Current current;
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  call("cuMemcpyDtoHAsync_v2", static_cast<void*>(values.data()),
       reinterpret_cast<CUdeviceptr>(tensor.raw()), values.size() * sizeof(float),
       static_cast<CUstream>(stream));
  call("cuStreamSynchronize", static_cast<CUstream>(stream));
  return values;
}

}  // namespace aot_test
