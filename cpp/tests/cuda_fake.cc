// A CUDA driver for machines without a GPU, built as libcuda.so.1 for tests.
//
// Device memory is host memory under addresses that a CPU cannot read, so a runtime that touches it
// itself crashes. Work is done as late as possible: only when something waits for it, and then only
// what it waits for, so that a missing wait or a missing order between streams shows. As in the
// real one, handles of streams are used again, and the per-thread default stream has one handle for
// all threads. A cubin is text: "FAKE sm_90\n" and "symbol parameters\n" lines up to "end\n", where
// " waits" follows for a kernel that may start early, and " aligned 1024" for one that needs its
// scratch so; kernels are functions of cuda_fake_kernels.cc.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cuda_fake_state.h"

namespace {

using namespace fake_cuda;  // NOLINT: this is the driver that it is the state of

thread_local std::vector<CUcontext> t_contexts;
thread_local FakeStream* t_stream = nullptr;  // the default stream of this thread

constexpr uintptr_t kLegacyStream = 1;
constexpr uintptr_t kPerThreadStream = 2;
constexpr size_t kBlockAlignment = 256;  // of device memory, and no more than that

CUcontext context_of(int gpu) { return reinterpret_cast<CUcontext>(uintptr_t{0x1000} + gpu); }

// The failure that a test has asked for under that name.
CUresult asked_for(const std::string& name) {
  State& s = state();
  const auto failure = s.failures.find(name);
  if (failure == s.failures.end() || failure->second.skip-- != 0) return kSuccess;
  const CUresult result = failure->second.result;
  s.failures.erase(failure);
  if (result >= kIllegalAddress && result <= kLaunchFailed) s.lost = result;
  return result;
}

// Counts a call; gives the failure that a test has asked for.
CUresult enter(const char* symbol, bool needs_context = true) {
  State& s = state();
  ++s.calls[symbol];
  ++s.calls[""];
  if (const CUresult failed = asked_for(symbol)) return failed;
  if (const CUresult failed = asked_for("")) return failed;
  if (!s.initialised) return kNotInitialized;
  if (needs_context && t_contexts.empty()) {
    misuse(std::string(symbol) + " without a context");
    return kInvalidContext;
  }
  return s.lost;
}

#define ENTER_WITH(needs_context)                                  \
  const std::lock_guard<std::recursive_mutex> lock(state().mutex); \
  if (const CUresult failed = enter(__func__, needs_context)) return failed
#define ENTER() ENTER_WITH(true)

// The body of a call that waits: one that fails has waited all the same.
#define WAIT(wait)                         \
  const CUresult failed = enter(__func__); \
  wait_begins();                           \
  wait;                                    \
  return failed != kSuccess ? failed : state().lost

FakeStream* find_stream(CUstream handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= kLegacyStream) return &state().legacy;
  if (number == kPerThreadStream) {
    if (t_stream == nullptr) state().streams.insert(t_stream = new FakeStream);
    return t_stream;
  }
  const auto found = state().handles.find(handle);
  return found != state().handles.end() ? found->second : nullptr;
}

// Of a call that waits for the device.
void wait_begins() {
  if (state().probe != nullptr && state().probe() != 0) ++state().probed;
}

CUresult enqueue(CUstream handle, std::function<void()> work) {
  FakeStream* stream = find_stream(handle);
  if (stream == nullptr) {
    misuse("work for a stream that is not there");
    return kInvalidHandle;
  }
  stream->work.push_back(std::move(work));
  ++stream->enqueued;
  return kSuccess;
}

CUresult check_launch(const FakeFunction& function, const std::array<unsigned, 3>& grid,
                      unsigned threads, unsigned shared) {
  const bool empty = grid[0] == 0 || grid[1] == 0 || grid[2] == 0;
  if (empty || grid[1] > 65535 || grid[2] > 65535 || threads == 0 || threads > 1024 ||
      static_cast<int>(shared) > function.dynamic_shared) {
    misuse("a launch of " + function.symbol + " that no GPU accepts");
    return kInvalidValue;
  }
  return kSuccess;
}

std::vector<uint64_t> copy_parameters(const FakeFunction& function, void** parameters) {
  std::vector<uint64_t> copies(static_cast<size_t>(function.parameters));
  for (size_t i = 0; i < copies.size(); ++i) std::memcpy(&copies[i], parameters[i], 8);
  if (!copies.empty() && copies.back() != 0) misuse("a profile scratch for " + function.symbol);
  if (function.alignment > 1 && copies[copies.size() - 2] % function.alignment != 0) {
    misuse("scratch that is not aligned for " + function.symbol);
  }
  return copies;
}

CUresult enqueue_kernel(CUstream stream, const FakeNode& node) {
  return enqueue(stream, [node] {
    if (state().lost != kSuccess) return;
    const int64_t blocks = int64_t{node.grid[0]} * node.grid[1] * node.grid[2];
    kernels().at(node.function->symbol)(node.parameters, blocks);
  });
}

CUresult node_of(const KernelNodeParams& params, FakeNode* node) {
  node->function = reinterpret_cast<FakeFunction*>(params.function);
  node->grid = {params.grid_x, params.grid_y, params.grid_z};
  node->parameters = copy_parameters(*node->function, params.parameters);
  return check_launch(*node->function, node->grid, params.block_x, params.shared_bytes);
}

template <typename T, typename Handle>
bool forget(std::set<T*>* alive, Handle handle, const char* what) {
  auto* object = reinterpret_cast<T*>(handle);
  if (alive->erase(object) == 0) {
    misuse(std::string("a ") + what + " is destroyed that is not there");
    return false;
  }
  delete object;
  return true;
}

}  // namespace

// ---------------------------------------------------------------- driver, devices, contexts

API CUresult cuInit(unsigned /*flags*/) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().initialised = true;
  if (const CUresult failed = enter(__func__, false)) return failed;
  return state().gpus == 0 ? kNoDevice : kSuccess;
}

API CUresult cuDriverGetVersion(int* version) {
  *version = state().version;
  return kSuccess;
}

API CUresult cuDeviceGetCount(int* count) {
  ENTER_WITH(false);
  *count = state().gpus;
  return kSuccess;
}

API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER_WITH(false);
  if (ordinal < 0 || ordinal >= state().gpus) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

API CUresult cuDeviceGetName(char* name, int size, CUdevice /*device*/) {
  ENTER_WITH(false);
  std::snprintf(name, static_cast<size_t>(size), "Fake GPU");
  return kSuccess;
}

API CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice /*device*/) {
  ENTER_WITH(false);
  if (attribute == kComputeCapabilityMajor) *value = state().major;
  if (attribute == kComputeCapabilityMinor) *value = state().minor;
  if (attribute == kMaxSharedPerBlockOptin) *value = kMaxShared;
  return kSuccess;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER_WITH(false);
  ++state().retained.at(static_cast<size_t>(device));
  *context = context_of(device);
  return kSuccess;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  if (--state().retained.at(static_cast<size_t>(device)) < 0) misuse("a context released twice");
  return kSuccess;
}

API CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = t_contexts.empty() ? nullptr : t_contexts.back();
  return kSuccess;
}

API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  if (const CUresult failed = asked_for(__func__)) return failed;
  t_contexts.push_back(context);
  return kSuccess;
}

API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (t_contexts.empty()) return kInvalidContext;
  *context = t_contexts.back();
  t_contexts.pop_back();
  return kSuccess;
}

API CUresult cuCtxSynchronize() {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  WAIT(drain_all());
}

// ---------------------------------------------------------------- modules

API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned /*options*/,
                                int* /*names*/, void** /*values*/) {
  ENTER();
  // Behind an ELF header, which the runtime looks at, or bare.
  const auto* front = static_cast<const char*>(image);
  const bool elf = std::memcmp(front, "\177ELF", 4) == 0;
  std::istringstream text(elf ? front + 64 : front);
  std::string word;
  text >> word;
  if (word != "FAKE") return kInvalidImage;
  text >> word;
  if (word != "sm_" + std::to_string(state().major * 10 + state().minor)) return kNoBinaryForGpu;
  auto loaded = std::make_unique<FakeModule>();
  while (text >> word && word != "end") {
    FakeFunction function;
    function.symbol = word;
    text >> function.parameters;
    std::string rest;
    std::getline(text, rest);
    std::istringstream more(rest);
    while (more >> rest) {
      if (rest == "waits") function.waits = true;
      if (rest == "narrow") function.narrow = true;
      if (rest == "aligned") more >> function.alignment;
    }
    loaded->functions[word] = function;
  }
  *module = reinterpret_cast<CUmodule>(loaded.get());
  state().modules.insert(loaded.release());
  return kSuccess;
}

API CUresult cuModuleUnload(CUmodule module) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  drain_all();
  return forget(&state().modules, module, "module") ? kSuccess : kInvalidHandle;
}

API CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER();
  auto& functions = reinterpret_cast<FakeModule*>(module)->functions;
  const auto found = functions.find(name);
  if (found == functions.end() || kernels().count(name) == 0) return kNotFound;
  *function = reinterpret_cast<CUfunction>(&found->second);
  return kSuccess;
}

API CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  ENTER();
  if (attribute != kMaxDynamicSharedSize || value > kMaxShared) return kInvalidValue;
  reinterpret_cast<FakeFunction*>(function)->dynamic_shared = value;
  return kSuccess;
}

API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
  ENTER();
  const auto* asked = reinterpret_cast<FakeFunction*>(function);
  if (index >= static_cast<size_t>(asked->parameters)) return kInvalidValue;
  *offset = 8 * index;
  *size = asked->narrow && index == 0 ? 4 : 8;
  return kSuccess;
}

API CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                            CUstream stream, void** parameters, void** extra) {
  ENTER();
  auto* called = reinterpret_cast<FakeFunction*>(function);
  if (block_y != 1 || block_z != 1 || extra != nullptr) misuse("a launch of an unknown form");
  FakeNode node{called, {x, y, z}, copy_parameters(*called, parameters)};
  if (const CUresult wrong = check_launch(*called, node.grid, block_x, shared)) return wrong;
  return enqueue_kernel(stream, node);
}

// Counted as the plain launch that it is, too.
API CUresult cuLaunchKernelEx(const LaunchConfig* config, CUfunction function, void** parameters,
                              void** extra) {
  {
    ENTER();
    const bool early = config->attribute_count == 1 && config->attributes != nullptr &&
                       config->attributes->id == kProgrammaticSerialization &&
                       config->attributes->allowed == 1;
    if (!early) misuse("a launch of an unknown form");
    if (!reinterpret_cast<FakeFunction*>(function)->waits) {
      misuse("a kernel starts early that does not wait");
    }
  }
  return cuLaunchKernel(function, config->grid_x, config->grid_y, config->grid_z, config->block_x,
                        config->block_y, config->block_z, config->shared_bytes, config->stream,
                        parameters, extra);
}

// ---------------------------------------------------------------- memory

API CUresult cuMemGetInfo_v2(size_t* unused, size_t* total) {
  ENTER();
  *unused = state().memory - state().used;
  *total = state().memory;
  return kSuccess;
}

API CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
  ENTER();
  State& s = state();
  if (size == 0) return kInvalidValue;
  if (size > s.memory - s.used) return kOutOfMemory;
  constexpr size_t kUnit = 2 * kBlockAlignment;
  void* const begin = std::aligned_alloc(kUnit, size / kUnit * kUnit + 2 * kUnit);
  const uint64_t raw = reinterpret_cast<uint64_t>(begin) + kBlockAlignment;
  s.used += size;
  s.device_blocks[raw | kTag] = size;
  *address = raw | kTag;
  return kSuccess;
}

API CUresult cuMemFree_v2(CUdeviceptr address) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  ++state().calls[__func__];
  wait_begins();
  drain_all();
  const auto found = state().device_blocks.find(address);
  if (found == state().device_blocks.end()) {
    misuse("device memory is freed that is not there");
    return kInvalidValue;
  }
  state().used -= found->second;
  state().device_blocks.erase(found);
  std::free(reinterpret_cast<void*>((address & ~kTag) - kBlockAlignment));
  return kSuccess;
}

API CUresult cuMemHostAlloc(void** data, size_t size, unsigned /*flags*/) {
  ENTER();
  if (size == 0) return kInvalidValue;
  *data = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  state().host_blocks[reinterpret_cast<uint64_t>(*data)] = size;
  return kSuccess;
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* data, unsigned /*flags*/) {
  ENTER();
  *address = reinterpret_cast<uint64_t>(data);
  return kSuccess;
}

API CUresult cuMemFreeHost(void* data) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  ++state().calls[__func__];
  wait_begins();
  drain_all();
  if (state().host_blocks.erase(reinterpret_cast<uint64_t>(data)) == 0) {
    misuse("host memory is freed that is not there");
    return kInvalidValue;
  }
  std::free(data);
  return kSuccess;
}

// Page-locked memory is read when the copy is done, other memory at once, as the driver does it.
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  ENTER();
  const bool pinned = inside(state().host_blocks, reinterpret_cast<uint64_t>(from), size);
  std::string copy;
  if (!pinned) copy.assign(static_cast<const char*>(from), size);
  return enqueue(stream, [to, from, size, pinned, copy] {
    auto* target = reach<char>(to, static_cast<int64_t>(size));
    if (target != nullptr) std::memcpy(target, pinned ? from : copy.data(), size);
  });
}

API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  ENTER();
  return enqueue(stream, [to, from, size] {
    const auto* source = reach<char>(from, static_cast<int64_t>(size));
    if (source != nullptr) std::memcpy(to, source, size);
  });
}

API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream stream) {
  ENTER();
  return enqueue(stream, [to, value, size] {
    auto* target = reach<char>(to, static_cast<int64_t>(size));
    if (target != nullptr) std::memset(target, value, size);
  });
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  ENTER();
  return enqueue(stream, [to, from, size] {
    const auto* source = reach<char>(from, static_cast<int64_t>(size));
    auto* target = reach<char>(to, static_cast<int64_t>(size));
    if (source != nullptr && target != nullptr) std::memcpy(target, source, size);
  });
}

// ---------------------------------------------------------------- streams, events

API CUresult cuStreamCreate(CUstream* stream, unsigned /*flags*/) {
  ENTER();
  State& s = state();
  if (s.free_handles.empty()) {
    constexpr uintptr_t kFirst = 0x10000;
    const uintptr_t number = kFirst + 64 * s.handles.size();
    s.free_handles.push_back(reinterpret_cast<CUstream>(number));
  }
  *stream = s.free_handles.back();
  s.free_handles.pop_back();
  s.handles[*stream] = *s.streams.insert(new FakeStream).first;
  return kSuccess;
}

// Does not wait: the work that is there is done when somebody waits for it.
API CUresult cuStreamDestroy_v2(CUstream stream) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const auto found = state().handles.find(stream);
  if (found == state().handles.end()) {
    misuse("a stream is destroyed that is not there");
    return kInvalidHandle;
  }
  found->second->destroyed = true;
  state().handles.erase(found);
  state().free_handles.push_back(stream);
  return kSuccess;
}

API CUresult cuStreamSynchronize(CUstream stream) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  FakeStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  WAIT(drain(found, found->enqueued));
}

API CUresult cuStreamGetId(CUstream stream, unsigned long long* number) {
  ENTER();
  *number = find_stream(stream)->number;
  return kSuccess;
}
API CUresult cuStreamIsCapturing(CUstream stream, int* status) {
  ENTER();
  *status = state().capturing == stream && stream != nullptr ? 1 : kCaptureNone;
  return kSuccess;
}
API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned /*flags*/) {
  ENTER();
  const FakeEvent recorded = *reinterpret_cast<FakeEvent*>(event);
  if (recorded.stream == nullptr) return kSuccess;
  return enqueue(stream, [recorded] { drain(recorded.stream, recorded.position); });
}
API CUresult cuEventCreate(CUevent* event, unsigned /*flags*/) {
  ENTER();
  auto* made = new FakeEvent;
  state().events.insert(made);
  *event = reinterpret_cast<CUevent>(made);
  return kSuccess;
}

API CUresult cuEventDestroy_v2(CUevent event) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return forget(&state().events, event, "event") ? kSuccess : kInvalidHandle;
}

API CUresult cuEventRecord(CUevent event, CUstream stream) {
  ENTER();
  FakeStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  *reinterpret_cast<FakeEvent*>(event) = {found, found->enqueued};
  return kSuccess;
}

API CUresult cuEventSynchronize(CUevent event) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const auto& recorded = *reinterpret_cast<FakeEvent*>(event);
  WAIT(if (recorded.stream != nullptr) drain(recorded.stream, recorded.position));
}

API CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  ENTER();
  const auto& begin = *reinterpret_cast<FakeEvent*>(from);
  const auto& end = *reinterpret_cast<FakeEvent*>(to);
  if (begin.stream == nullptr || end.stream == nullptr || end.stream->done < end.position) {
    return kInvalidHandle;
  }
  *milliseconds = 0.5F;
  return kSuccess;
}

// ---------------------------------------------------------------- graphs

API CUresult cuGraphCreate(CUgraph* graph, unsigned /*flags*/) {
  ENTER();
  auto* made = new FakeGraph;
  state().graphs.insert(made);
  *graph = reinterpret_cast<CUgraph>(made);
  return kSuccess;
}

API CUresult cuGraphDestroy(CUgraph graph) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return forget(&state().graphs, graph, "graph") ? kSuccess : kInvalidHandle;
}

API CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                                     size_t count, const KernelNodeParams* params) {
  ENTER();
  auto& nodes = reinterpret_cast<FakeGraph*>(graph)->nodes;
  auto made = std::make_unique<FakeNode>();
  made->follows =
      !nodes.empty() && count == 1 && reinterpret_cast<FakeNode*>(*before) == nodes.back().get();
  if (count != 0 && !made->follows) misuse("a node of a graph follows another than the last");
  if (const CUresult wrong = node_of(*params, made.get())) return wrong;
  *node = reinterpret_cast<CUgraphNode>(made.get());
  nodes.push_back(std::move(made));
  return kSuccess;
}

// Edges that let a kernel start early, between neighbours.
API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                       const CUgraphNode* to, const GraphEdge* edge, size_t count) {
  ENTER();
  auto& nodes = reinterpret_cast<FakeGraph*>(graph)->nodes;
  if (count != 1 || nodes.size() < 2 || edge->from_port != kPortProgrammatic ||
      edge->to_port != 0 || edge->type != kEdgeProgrammatic) {
    return kInvalidValue;
  }
  const bool neighbours = reinterpret_cast<FakeNode*>(*from) == nodes[nodes.size() - 2].get() &&
                          reinterpret_cast<FakeNode*>(*to) == nodes.back().get();
  if (!neighbours) misuse("an edge of a graph that is not between the last two nodes");
  if (!nodes.back()->function->waits) misuse("a kernel starts early that does not wait");
  nodes.back()->follows = true;
  return kSuccess;
}

API CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                         unsigned long long /*flags*/) {  // NOLINT
  ENTER();
  auto* made = new FakeExec;
  for (const auto& node : reinterpret_cast<FakeGraph*>(graph)->nodes) {
    // Kernels of a session share memory: each must follow the one before.
    if (!node->follows && !made->nodes.empty()) misuse("a node of a graph follows none");
    made->positions[node.get()] = made->nodes.size();
    made->nodes.push_back(*node);
  }
  state().execs.insert(made);
  *exec = reinterpret_cast<CUgraphExec>(made);
  return kSuccess;
}

API CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return forget(&state().execs, exec, "graph") ? kSuccess : kInvalidHandle;
}

API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                               const KernelNodeParams* params) {
  ENTER();
  auto* found = reinterpret_cast<FakeExec*>(exec);
  const auto position = found->positions.find(reinterpret_cast<FakeNode*>(node));
  if (position == found->positions.end()) return kInvalidHandle;
  return node_of(*params, &found->nodes[position->second]);
}

API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  ENTER();
  for (const FakeNode& node : reinterpret_cast<FakeExec*>(exec)->nodes) {
    if (const CUresult failed = enqueue_kernel(stream, node)) return failed;
  }
  return kSuccess;
}
