#include "cuda/driver.h"

#include <dlfcn.h>

#include "error.h"
#include "process.h"

namespace aot_rt::cuda {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";
constexpr int kOldestVersion = 12000;         // kernel nodes of graphs in their second form
constexpr int kEarlyLaunchesVersion = 12030;  // edges of graphs that have data

struct CodeOf {
  CUresult result;
  aot_code code;
  const char* advice;
};

constexpr char kLost[] =
    "; a kernel failed or the GPU is lost, and with it everything of this process on that GPU: "
    "start the process again. A session with `synchronous` names the kernel that fails";
constexpr char kOldDriver[] = "; update the NVIDIA driver of this machine";

constexpr CodeOf kCodes[] = {
    {kOutOfMemory, AOT_OUT_OF_MEMORY, ""},
    {kStubLibrary, AOT_UNAVAILABLE, "; libcuda.so.1 is the toolkit's stub, not a driver"},
    {kUnsupportedPtxVersion, AOT_UNAVAILABLE, kOldDriver},
    {kSystemDriverMismatch, AOT_UNAVAILABLE, "; driver and kernel module differ: restart"},
    {kCompatNotSupported, AOT_UNAVAILABLE, kOldDriver},
    {kNoDevice, AOT_UNAVAILABLE, "; no GPU is visible to this process"},
    {kInvalidDevice, AOT_UNAVAILABLE, ""},
    {kNoBinaryForGpu, AOT_UNAVAILABLE, "; the driver may be too old for these kernels"},
    {kNotSupported, AOT_UNSUPPORTED, ""},
    {kDeviceUnavailable, AOT_DEVICE_ERROR, "; another process may hold it exclusively"},
    {kEccUncorrectable, AOT_DEVICE_ERROR, kLost},
    {kIllegalAddress, AOT_DEVICE_ERROR, kLost},
    {kLaunchTimeout, AOT_DEVICE_ERROR, kLost},
    {kAssert, AOT_DEVICE_ERROR, kLost},
    {kHardwareStackError, AOT_DEVICE_ERROR, kLost},
    {kIllegalInstruction, AOT_DEVICE_ERROR, kLost},
    {kMisalignedAddress, AOT_DEVICE_ERROR, kLost},
    {kInvalidAddressSpace, AOT_DEVICE_ERROR, kLost},
    {kInvalidPc, AOT_DEVICE_ERROR, kLost},
    {kLaunchFailed, AOT_DEVICE_ERROR, kLost},
    {kUnknown, AOT_DEVICE_ERROR, kLost},
};

std::string version_text(int version) { return cat(version / 1000, ".", version % 1000 / 10); }

template <typename Function>
void resolve(void* library, const Driver* driver, const char* symbol, Function* function) {
  function->driver = driver;
  function->name = symbol;
  function->pointer = reinterpret_cast<typename Function::Pointer>(::dlsym(library, symbol));
}

}  // namespace

void fail_call(const Driver& driver, CUresult result, const char* call) {
  driver.fail(result, call);
}

const Driver& Driver::get() {
  static const Driver driver;  // a constructor that throws runs again at the next call
  if (driver.forks_ != forks()) {
    aot_rt::fail(AOT_UNAVAILABLE,
                 "this process was forked from one that uses CUDA, which does not work in the ",
                 "child: fork before the first use of a GPU, or start the process with 'spawn'");
  }
  return driver;
}

Driver::Driver() : forks_(forks()) {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    aot_rt::fail(AOT_UNAVAILABLE,
                 "no NVIDIA driver on this machine: ", reason != nullptr ? reason : kLibrary);
  }
  const char* missing = nullptr;
#define AOT_CUDA_RESOLVE(member, symbol, parameters) \
  resolve(library, this, #symbol, &member);          \
  if (member.pointer == nullptr && missing == nullptr) missing = #symbol;
  AOT_CUDA_SYMBOLS(AOT_CUDA_RESOLVE)
#undef AOT_CUDA_RESOLVE
#define AOT_CUDA_RESOLVE_LATER(member, symbol, parameters) resolve(library, this, #symbol, &member);
  AOT_CUDA_LATER_SYMBOLS(AOT_CUDA_RESOLVE_LATER)
#undef AOT_CUDA_RESOLVE_LATER
  int version = 0;
  if (driver_get_version.pointer != nullptr) driver_get_version.raw(&version);
  version_ = version_text(version);
  if (version < kOldestVersion || missing != nullptr) {
    aot_rt::fail(AOT_UNAVAILABLE, "the NVIDIA driver of this machine serves CUDA ", version_,
                 missing != nullptr ? cat(", without ", missing) : std::string(), "; CUDA ",
                 version_text(kOldestVersion), " or newer is needed: update the driver");
  }
  early_launches_ = version >= kEarlyLaunchesVersion && graph_add_dependencies.pointer != nullptr;
  init(0);
}

void Driver::fail(CUresult result, const char* call, const std::string& where,
                  const std::string& origin) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (get_error_name.raw(result, &name) != kSuccess || name == nullptr) name = "unknown error";
  if (get_error_string.raw(result, &text) != kSuccess || text == nullptr) text = "";
  aot_code code = AOT_DEVICE_ERROR;
  const char* advice = "";
  for (const CodeOf& row : kCodes) {
    if (row.result != result) continue;
    code = row.code;
    advice = row.advice;
  }
  std::string message = cat(call, ": ", name, " (", result, ")");
  if (*text != '\0') message += cat(", ", text);
  if (!where.empty()) message += cat(", while ", where);
  throw Error(code, message + advice, origin);
}

}  // namespace aot_rt::cuda
