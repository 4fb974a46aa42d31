// The part of the CUDA driver's stable ABI that the runtime speaks, declared here: no toolkit is
// needed to build, and nothing of CUDA is linked. Names and values are the driver's own.
#ifndef AOT_SRC_CUDA_DRIVER_ABI_H_
#define AOT_SRC_CUDA_DRIVER_ABI_H_

#include <cstddef>
#include <cstdint>

namespace aot_rt::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;  // NOLINT(google-runtime-int): as the driver has it
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUkernel = struct CUkern_st*;

// CUresult, as far as they are treated apart.
inline constexpr CUresult kSuccess = 0;
inline constexpr CUresult kInvalidValue = 1;
inline constexpr CUresult kOutOfMemory = 2;
inline constexpr CUresult kNotInitialized = 3;
inline constexpr CUresult kStubLibrary = 34;
inline constexpr CUresult kDeviceUnavailable = 46;
inline constexpr CUresult kNoDevice = 100;
inline constexpr CUresult kInvalidDevice = 101;
inline constexpr CUresult kInvalidImage = 200;
inline constexpr CUresult kNoBinaryForGpu = 209;
inline constexpr CUresult kEccUncorrectable = 214;
inline constexpr CUresult kUnsupportedPtxVersion = 222;
inline constexpr CUresult kNotFound = 500;
inline constexpr CUresult kIllegalAddress = 700;
inline constexpr CUresult kLaunchOutOfResources = 701;
inline constexpr CUresult kLaunchTimeout = 702;
inline constexpr CUresult kAssert = 710;
inline constexpr CUresult kHardwareStackError = 714;
inline constexpr CUresult kIllegalInstruction = 715;
inline constexpr CUresult kMisalignedAddress = 716;
inline constexpr CUresult kInvalidAddressSpace = 717;
inline constexpr CUresult kInvalidPc = 718;
inline constexpr CUresult kLaunchFailed = 719;
inline constexpr CUresult kNotSupported = 801;
inline constexpr CUresult kSystemDriverMismatch = 803;
inline constexpr CUresult kCompatNotSupported = 804;
inline constexpr CUresult kUnknown = 999;

// CUdevice_attribute
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kMaxSharedPerBlockOptin = 97;

// CUfunction_attribute
inline constexpr int kMaxDynamicSharedSize = 8;

inline constexpr unsigned kStreamDefault = 0;
inline constexpr int kCaptureNone = 0;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostAllocDeviceMap = 2;

// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNodeParams {
  CUfunction function;
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  void** parameters;
  void** extra;
  CUkernel kernel;
  CUcontext context;
};
static_assert(sizeof(KernelNodeParams) == 72, "the layout of CUDA_KERNEL_NODE_PARAMS_v2");

// CUgraphEdgeData, and its values for an edge that is passed when all blocks of the kernel before
// have let their dependents start, or have ended.
struct GraphEdge {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};
static_assert(sizeof(GraphEdge) == 8, "the layout of CUgraphEdgeData");
inline constexpr unsigned char kPortProgrammatic = 1;
inline constexpr unsigned char kEdgeProgrammatic = 1;

// CUlaunchAttribute, as far as it is used, and the one that lets a kernel start as such an edge
// does, after whatever kernel was enqueued before it in the stream.
struct LaunchAttribute {
  unsigned id;
  unsigned reserved;
  int allowed;
  unsigned char rest[60];
};
static_assert(sizeof(LaunchAttribute) == 72, "the layout of CUlaunchAttribute");
inline constexpr unsigned kProgrammaticSerialization = 6;

// CUlaunchConfig
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  CUstream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56, "the layout of CUlaunchConfig");

}  // namespace aot_rt::cuda

// Every entry point that is used: member of Driver, symbol of the library, parameters. All of them
// return CUresult and are there since driver 12.0.
#define AOT_CUDA_SYMBOLS(_)                                                                      \
  _(get_error_name, cuGetErrorName, (CUresult, const char**))                                    \
  _(get_error_string, cuGetErrorString, (CUresult, const char**))                                \
  _(init, cuInit, (unsigned))                                                                    \
  _(driver_get_version, cuDriverGetVersion, (int*))                                              \
  _(device_get_count, cuDeviceGetCount, (int*))                                                  \
  _(device_get, cuDeviceGet, (CUdevice*, int))                                                   \
  _(device_get_name, cuDeviceGetName, (char*, int, CUdevice))                                    \
  _(device_get_attribute, cuDeviceGetAttribute, (int*, int, CUdevice))                           \
  _(primary_retain, cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                            \
  _(primary_release, cuDevicePrimaryCtxRelease_v2, (CUdevice))                                   \
  _(ctx_get_current, cuCtxGetCurrent, (CUcontext*))                                              \
  _(ctx_push_current, cuCtxPushCurrent_v2, (CUcontext))                                          \
  _(ctx_pop_current, cuCtxPopCurrent_v2, (CUcontext*))                                           \
  _(ctx_synchronize, cuCtxSynchronize, ())                                                       \
  _(module_load_data, cuModuleLoadDataEx, (CUmodule*, const void*, unsigned, int*, void**))      \
  _(module_unload, cuModuleUnload, (CUmodule))                                                   \
  _(module_get_function, cuModuleGetFunction, (CUfunction*, CUmodule, const char*))              \
  _(func_set_attribute, cuFuncSetAttribute, (CUfunction, int, int))                              \
  _(launch_kernel, cuLaunchKernel,                                                               \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
     void**, void**))                                                                            \
  _(mem_get_info, cuMemGetInfo_v2, (size_t*, size_t*))                                           \
  _(mem_alloc, cuMemAlloc_v2, (CUdeviceptr*, size_t))                                            \
  _(mem_free, cuMemFree_v2, (CUdeviceptr))                                                       \
  _(mem_host_alloc, cuMemHostAlloc, (void**, size_t, unsigned))                                  \
  _(mem_host_get_device_pointer, cuMemHostGetDevicePointer_v2, (CUdeviceptr*, void*, unsigned))  \
  _(mem_free_host, cuMemFreeHost, (void*))                                                       \
  _(memcpy_htod_async, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void*, size_t, CUstream))       \
  _(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2, (void*, CUdeviceptr, size_t, CUstream))             \
  _(memcpy_dtod_async, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))       \
  _(memset_d8_async, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))            \
  _(stream_create, cuStreamCreate, (CUstream*, unsigned))                                        \
  _(stream_destroy, cuStreamDestroy_v2, (CUstream))                                              \
  _(stream_synchronize, cuStreamSynchronize, (CUstream))                                         \
  _(stream_get_id, cuStreamGetId, (CUstream, unsigned long long*)) /* NOLINT */                  \
  _(stream_is_capturing, cuStreamIsCapturing, (CUstream, int*))                                  \
  _(stream_wait_event, cuStreamWaitEvent, (CUstream, CUevent, unsigned))                         \
  _(event_create, cuEventCreate, (CUevent*, unsigned))                                           \
  _(event_destroy, cuEventDestroy_v2, (CUevent))                                                 \
  _(event_record, cuEventRecord, (CUevent, CUstream))                                            \
  _(event_synchronize, cuEventSynchronize, (CUevent))                                            \
  _(event_elapsed_time, cuEventElapsedTime, (float*, CUevent, CUevent))                          \
  _(graph_create, cuGraphCreate, (CUgraph*, unsigned))                                           \
  _(graph_destroy, cuGraphDestroy, (CUgraph))                                                    \
  _(graph_add_kernel_node, cuGraphAddKernelNode_v2,                                              \
    (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const KernelNodeParams*))                \
  _(graph_instantiate, cuGraphInstantiateWithFlags,                                              \
    (CUgraphExec*, CUgraph, unsigned long long)) /* NOLINT */                                    \
  _(graph_exec_destroy, cuGraphExecDestroy, (CUgraphExec))                                       \
  _(graph_exec_set_kernel, cuGraphExecKernelNodeSetParams_v2,                                    \
    (CUgraphExec, CUgraphNode, const KernelNodeParams*))                                         \
  _(graph_launch, cuGraphLaunch, (CUgraphExec, CUstream))

// Entry points that older drivers, or those of tests, lack; see Driver for what says that they are
// there.
#define AOT_CUDA_LATER_SYMBOLS(_)                                                \
  _(graph_add_dependencies, cuGraphAddDependencies_v2, /* 12.3 */                \
    (CUgraph, const CUgraphNode*, const CUgraphNode*, const GraphEdge*, size_t)) \
  _(func_get_param_info, cuFuncGetParamInfo, /* 12.4 */                          \
    (CUfunction, size_t, size_t*, size_t*))                                      \
  _(launch_kernel_ex, cuLaunchKernelEx, (const LaunchConfig*, CUfunction, void**, void**))

#endif  // AOT_SRC_CUDA_DRIVER_ABI_H_
