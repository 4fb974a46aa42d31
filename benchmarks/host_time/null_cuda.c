/* A CUDA driver that does nothing, at once: what is left of a call's time is the runtime's own.
 * Kernels do not run, device memory is the host's, a handle is any address. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char object;

static int give(void** handle) {
  *handle = &object;
  return 0;
}

static int allocate(void** address, size_t size) {
  return posix_memalign(address, 256, size == 0 ? 256 : size) == 0 ? 0 : 2;
}

static int64_t launches;

/* How many kernels and graphs were launched, and how many nodes of graphs were changed. */
int64_t null_cuda_launches(void) { return launches; }

int cuDriverGetVersion(int* version) { return *version = 12040, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  return strncpy(name, "no GPU", (size_t)size), 0;
}
int cuDeviceGetAttribute(int* value, int which, int device) {
  (void)device;
  *value = which == 75 ? 9 : which == 76 ? 0 : 227 << 10;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) { return (void)device, give(context); }
int cuCtxGetCurrent(void** context) { return give(context); }
int cuCtxPopCurrent_v2(void** context) { return give(context); }
int cuModuleLoadDataEx(void** module) { return give(module); }
int cuModuleGetFunction(void** function) { return give(function); }
int cuStreamCreate(void** stream) { return give(stream); }
int cuEventCreate(void** event) { return give(event); }
int cuGraphCreate(void** graph) { return give(graph); }
int cuGraphAddKernelNode_v2(void** node) { return give(node); }
int cuGraphInstantiateWithFlags(void** graph) { return give(graph); }
int cuMemAlloc_v2(void** address, size_t size) { return allocate(address, size); }
int cuMemHostAlloc(void** address, size_t size) { return allocate(address, size); }
int cuMemFree_v2(void* address) { return free(address), 0; }
int cuMemFreeHost(void* address) { return free(address), 0; }
int cuMemHostGetDevicePointer_v2(void** address, void* host) { return *address = host, 0; }
int cuLaunchKernel(void) { return ++launches, 0; }
int cuLaunchKernelEx(void) { return ++launches, 0; }
int cuGraphLaunch(void) { return ++launches, 0; }
int cuGraphExecKernelNodeSetParams_v2(void) { return ++launches, 0; }

#define NOTHING(symbol) \
  int symbol(void) { return 0; }
NOTHING(cuGetErrorName)
NOTHING(cuGetErrorString)
NOTHING(cuInit)
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuCtxPushCurrent_v2)
NOTHING(cuCtxSynchronize)
NOTHING(cuModuleUnload)
NOTHING(cuFuncSetAttribute)
NOTHING(cuMemGetInfo_v2)
NOTHING(cuMemcpyHtoDAsync_v2)
NOTHING(cuMemcpyDtoHAsync_v2)
NOTHING(cuMemcpyDtoDAsync_v2)
NOTHING(cuMemsetD8Async)
NOTHING(cuStreamIsCapturing)
NOTHING(cuStreamGetId)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuStreamSynchronize)
NOTHING(cuStreamWaitEvent)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventRecord)
NOTHING(cuEventSynchronize)
NOTHING(cuEventElapsedTime)
NOTHING(cuGraphDestroy)
NOTHING(cuGraphExecDestroy)
