#include "cuda/device_program.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "cuda/upload.h"
#include "error.h"
#include "sha256.h"
#include "verify/cubin.h"
#include "verify/declaration.h"

namespace aot_rt::cuda {
namespace {

constexpr size_t kWeightAlignment = 256;
constexpr size_t kMostGap = 4096;          // between entries that are sent together
constexpr int64_t kFreeShared = 48 << 10;  // bytes that every kernel may have unasked

constexpr size_t kScratchParameters = 2;  // the kernel's own, and that of a profiler
constexpr size_t kParameterBytes = 8;     // of an address or a size

struct Architecture {
  int32_t major = -1;
  int32_t minor = -1;
};

// "sm_90" is 9.0, "sm_120" is 12.0; major -1 for anything else.
Architecture parse_architecture(std::string_view text) {
  if (text.substr(0, 3) != "sm_" || text.size() < 5 || text.size() > 6) return {};
  int32_t number = 0;
  for (const char digit : text.substr(3)) {
    if (digit < '0' || digit > '9') return {};
    number = number * 10 + (digit - '0');
  }
  return {number / 10, number % 10};
}

// Entries that lie next to each other in the file, which travel as one.
struct Span {
  const uint8_t* begin;
  const uint8_t* end;
  size_t offset;  // in device memory
};

}  // namespace

const Program& choose_program(const Plan& plan, const Device& device) {
  const Program* best = nullptr;
  int32_t best_minor = -1;
  std::string known;
  for (const Program* program : plan.programs_for("cuda")) {
    known += cat(known.empty() ? "" : ", ", program->arch);
    const Architecture arch = parse_architecture(program->arch);
    if (arch.major != device.major() || arch.minor > device.minor()) continue;
    if (arch.minor <= best_minor) continue;
    best = program;
    best_minor = arch.minor;
  }
  if (best != nullptr) return *best;
  const std::string own = cat("sm_", device.major(), device.minor());
  fail(AOT_UNAVAILABLE, "no CUDA kernels for this GPU: the package has ", known, "; the GPU is ",
       device.description(), ": package again with --target cuda:", own);
}

DeviceProgram::DeviceProgram(DevicePtr device, const Program& program)
    : device_(std::move(device)),
      program_(program),
      parameters_(count_parameters()),
      kernels_(program.kernels.size()) {}

DeviceProgram::~DeviceProgram() {
  const Driver& driver = device_->driver();
  if (device_->is_lost() || driver.ctx_push_current.raw(device_->context()) != kSuccess) return;
  for (const Loaded& loaded : kernels_) {
    if (loaded.module != nullptr) driver.module_unload.raw(loaded.module);
  }
  CUcontext popped = nullptr;
  driver.ctx_pop_current.raw(&popped);
}

Placement DeviceProgram::upload_weights(const Container& container, const Log& log) const {
  std::vector<const Entry*> entries;
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.storage == Storage::kEntry) entries.push_back(buffer.entry);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) {
    return a->bytes.data != b->bytes.data ? a->bytes.data < b->bytes.data : a < b;
  });
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  std::vector<Span> spans;
  std::vector<size_t> offsets;  // of entries
  size_t total = 0;
  for (const Entry* entry : entries) {
    const uint8_t* begin = entry->bytes.data;
    const uint8_t* end = begin + entry->bytes.size;
    if (spans.empty() || begin < spans.back().end ||
        static_cast<size_t>(begin - spans.back().end) > kMostGap) {
      total = (total + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
      spans.push_back({begin, begin, total});
    }
    Span& span = spans.back();
    offsets.push_back(span.offset + static_cast<size_t>(begin - span.begin));
    span.end = end;
    total = span.offset + static_cast<size_t>(end - span.begin);
  }
  Placement placement(container.entries().size());
  if (total == 0) return placement;
  const auto start = std::chrono::steady_clock::now();
  const auto weights = std::make_shared<const DeviceBlock>(device_, total, "weights");
  std::vector<Transfer> transfers;
  for (const Span& span : spans) {
    transfers.push_back(
        {span.begin, weights->address() + span.offset, static_cast<size_t>(span.end - span.begin)});
  }
  upload(device_, transfers);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  log(AOT_LOG_INFO,
      cat(total, " bytes of weights on ", device_->description(), " in ", elapsed.count(), " ms"));
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto position = static_cast<size_t>(entries[i] - container.entries().data());
    placement[position] = SharedBytes(weights, weights->data() + offsets[i]);
  }
  return placement;
}

CUfunction DeviceProgram::kernel(int32_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Loaded& loaded = kernels_[static_cast<size_t>(id)];
  if (loaded.function == nullptr) {
    loaded = load(program_.kernels[static_cast<size_t>(id)], parameters_[static_cast<size_t>(id)]);
  }
  return loaded.function;
}

// Those of its first launch; that others have as many is checked where they are counted. Routines
// of the weight program launch the program's kernels, too.
std::vector<size_t> DeviceProgram::count_parameters() const {
  std::vector<size_t> counts(program_.kernels.size(), 0);
  const auto count = [this, &counts](const Program& body) {
    for (const Step& step : body.steps) {
      if (step.kind != StepKind::kLaunch) continue;
      const Kernel& kernel = program_.kernel_of(step);
      const size_t own = step.buffers.size() + step.sizes.size() + (kernel.faults ? 1 : 0);
      size_t& known = counts[static_cast<size_t>(step.kernel)];
      if (known != 0 && known != own + kScratchParameters) {
        fail(AOT_CORRUPT_PACKAGE, "plan: kernel '", kernel.name, "' is launched with ", known,
             " parameters, and elsewhere with ", own + kScratchParameters);
      }
      known = own + kScratchParameters;
    }
  };
  count(program_);
  for (const auto& routine : program_.routines) count(routine->body);
  return counts;
}

// What the code itself says of its parameters, where the driver tells: all of 8 bytes.
void DeviceProgram::check_parameters(const Kernel& kernel, size_t count,
                                     CUfunction function) const {
  const Driver& driver = device_->driver();
  if (!driver.has_parameter_info() || count == 0) return;
  size_t found = 0;
  size_t offset = 0;
  size_t size = 0;
  while (found <= count &&
         driver.func_get_param_info.raw(function, found, &offset, &size) == kSuccess) {
    if (size != kParameterBytes || offset != found * kParameterBytes) {
      fail(AOT_CORRUPT_PACKAGE, "parameter ", found, " of kernel '", kernel.name, "' has ", size,
           " bytes at ", offset, ", the plan gives ", kParameterBytes, " at ",
           found * kParameterBytes);
    }
    ++found;
  }
  if (found == count) return;
  fail(AOT_CORRUPT_PACKAGE, "kernel '", kernel.name, "' takes ", found > count ? "more than " : "",
       std::min(found, count), " parameters, the plan gives ", count);
}

DeviceProgram::Loaded DeviceProgram::load(const Kernel& kernel, size_t parameters) const {
  // A copy, which nobody else writes: what is checked is what the driver gets.
  const size_t size = kernel.entry->bytes.size;
  std::vector<uint8_t> code(size + 1);  // with a zero behind: the driver is not told the size
  std::copy_n(kernel.entry->bytes.data, size, code.data());
  const std::string digest = sha256_hex({code.data(), size});
  if (digest != kernel.sha256) {
    fail(AOT_CORRUPT_PACKAGE, "checksum of '", kernel.entry->name, "' is ", digest,
         ", the plan says ", kernel.sha256);
  }
  if (kernel.shared > device_->max_shared()) {
    fail(AOT_UNAVAILABLE, "kernel '", kernel.name, "' needs ", kernel.shared,
         " bytes of shared memory, a block has ", device_->max_shared(), " on ",
         device_->description());
  }
  Entry checked = *kernel.entry;
  checked.bytes = {code.data(), size};
  check_declarations(checked, program_.declarations_of(kernel.entry));
  check_cubin(code_of(checked), program_.arch, checked.name);
  const Driver& driver = device_->driver();
  const Scope scope(*device_);
  const std::string where =
      cat("loading kernel '", kernel.name, "' of ", program_.arch, " (driver: CUDA ",
          driver.version(), ") on ", device_->description());
  Loaded loaded;
  CUresult result = driver.module_load_data.raw(&loaded.module, code.data(), 0, nullptr, nullptr);
  if (result != kSuccess) driver.fail(result, driver.module_load_data.name, where);
  const char* call = driver.module_get_function.name;
  result = driver.module_get_function.raw(&loaded.function, loaded.module, kernel.symbol.c_str());
  if (result == kSuccess && kernel.shared > kFreeShared) {
    call = driver.func_set_attribute.name;
    result = driver.func_set_attribute.raw(loaded.function, kMaxDynamicSharedSize,
                                           static_cast<int>(kernel.shared));
  }
  if (result != kSuccess) {
    driver.module_unload.raw(loaded.module);
    driver.fail(result, call, where);
  }
  try {
    check_parameters(kernel, parameters, loaded.function);
  } catch (const Error&) {
    driver.module_unload.raw(loaded.module);
    throw;
  }
  return loaded;
}

}  // namespace aot_rt::cuda
