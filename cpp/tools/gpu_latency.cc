// Host times of a package on a GPU, as one line of JSON:
//   aot_gpu_latency PACKAGE DEVICE CALLS input.npy…
// driver_ms: what the driver itself takes to start; load_ms, first_ms: opening, then the first
// call, of which the weights' upload is a part; call_us: the host's time for one enqueued call on
// inputs in device memory, median and least of CALLS; synced_us: the same with waiting for its end.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "npy.h"

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

// The few entry points of the driver that put inputs into device memory.
class Driver {
 public:
  explicit Driver(int ordinal) : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    int device = 0;
    void* context = nullptr;
    call("cuInit", 0U);
    call("cuDeviceGet", &device, ordinal);
    call("cuDevicePrimaryCtxRetain", &context, device);
    call("cuCtxPushCurrent_v2", context);
  }

  // A copy in device memory, which lives as long as the process.
  const void* upload(const void* data, size_t bytes) const {
    unsigned long long address = 0;  // NOLINT: the driver's type
    call("cuMemAlloc_v2", &address, std::max<size_t>(bytes, 1));
    void* const default_stream = nullptr;
    call("cuMemcpyHtoDAsync_v2", address, data, bytes, default_stream);
    call("cuStreamSynchronize", default_stream);
    return reinterpret_cast<const void*>(address);
  }

 private:
  template <typename... Args>
  void call(const char* symbol, Args... args) const {
    using Function = int (*)(Args...);
    const auto function = reinterpret_cast<Function>(dlsym(library_, symbol));
    const int result = function != nullptr ? function(args...) : -1;
    if (result != 0) {
      throw std::runtime_error(std::string(symbol) + " gives " + std::to_string(result));
    }
  }

  void* library_;
};

struct Times {
  double median = 0;
  double least = 0;
};

Times summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front()};
}

Times measure(aot::Session& session, const std::vector<aot::Tensor>& inputs, int calls, bool wait) {
  const aot::RunOptions enqueued{session.stream(), false};
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    const auto start = Clock::now();
    auto outputs = session.run(inputs, enqueued);
    if (wait) session.synchronize().value();
    times.push_back(milliseconds(start) * 1e3);
    outputs.value();
    // Neither a full queue nor the end of a run is to be measured.
    if (!wait) session.synchronize().value();
  }
  return summary(times);
}

int run(const std::string& path, const std::string& device, int calls,
        const std::vector<std::string>& files) {
  auto start = Clock::now();
  const size_t colon = device.find(':');
  const int ordinal = colon != std::string::npos ? std::stoi(device.substr(colon + 1)) : 0;
  const Driver driver(ordinal);
  const double driver_ms = milliseconds(start);
  std::vector<aot_tools::Array> arrays;
  for (const std::string& file : files) arrays.push_back(aot_tools::read_npy(file));

  start = Clock::now();
  const aot::Package package = aot::Package::open(path).value();
  aot::SessionOptions options;
  options.device = device;
  aot::Session session = aot::Session::create(package, options).value();
  const double load_ms = milliseconds(start);
  std::vector<aot::Tensor> host;
  for (const aot_tools::Array& array : arrays) host.push_back(array.tensor());
  start = Clock::now();
  session.run(host, {nullptr, true}).value();
  const double first_ms = milliseconds(start);

  std::vector<aot::Tensor> inputs;
  for (const aot_tools::Array& array : arrays) {
    const void* copy = driver.upload(array.storage.data(), array.elements() * array.element());
    inputs.push_back(
        aot::Tensor::borrow(copy, array.dtype, array.shape, array.strides, session.device()));
  }
  measure(session, inputs, 20, true);
  const Times call = measure(session, inputs, calls, false);
  const Times synced = measure(session, inputs, calls, true);
  std::printf(
      "{\"driver_ms\": %.3f, \"load_ms\": %.3f, \"first_ms\": %.3f, "
      "\"call_us\": {\"median\": %.2f, \"least\": %.2f}, "
      "\"synced_us\": {\"median\": %.2f, \"least\": %.2f}}\n",
      driver_ms, load_ms, first_ms, call.median, call.least, synced.median, synced.least);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: " << argv[0] << " PACKAGE DEVICE CALLS input.npy…\n";
    return 2;
  }
  try {
    return run(argv[1], argv[2], std::atoi(argv[3]), {argv + 4, argv + argc});
  } catch (const aot::Error& error) {
    std::cerr << "error " << error.code_name() << ": " << error.what() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
  }
  return 1;
}
