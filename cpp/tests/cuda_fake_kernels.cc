// The state of the fake CUDA driver, its kernels, and what tests control.
#include <cstdio>
#include <cstring>
#include <iterator>

#include "cuda_fake.h"
#include "cuda_fake_state.h"

namespace fake_cuda {

State& state() {
  static State* const one = new State;  // never destroyed: blocks come back at the very end
  return *one;
}

void misuse(const std::string& text) {
  if (state().misuse.empty()) state().misuse = text;
  std::fprintf(stderr, "fake CUDA: %s\n", text.c_str());
}

void drain(FakeStream* stream, uint64_t position) {
  while (stream->done < position) {
    const std::function<void()> work = std::move(stream->work.front());
    stream->work.pop_front();
    ++stream->done;
    if (state().lost == kSuccess) work();  // a lost GPU does nothing more
  }
}

namespace {

// Those that nobody can name any more: their handles are destroyed and all work is done.
void forget_streams() {
  std::set<FakeStream*>& streams = state().streams;
  std::set<const FakeStream*> named;
  for (const FakeEvent* event : state().events) named.insert(event->stream);
  for (auto at = streams.begin(); at != streams.end();) {
    FakeStream* const stream = *at;
    const bool over = stream->destroyed && named.count(stream) == 0;
    at = over ? streams.erase(at) : std::next(at);
    if (over) delete stream;
  }
}

}  // namespace

void drain_all() {
  for (FakeStream* stream : state().streams) drain(stream, stream->enqueued);
  drain(&state().legacy, state().legacy.enqueued);
  forget_streams();
}

bool inside(const std::map<uint64_t, size_t>& blocks, uint64_t address, size_t bytes) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  --after;
  return address + bytes <= after->first + after->second;
}

namespace {

using Params = std::vector<uint64_t>;

// (x, bias, sum, width, scratch, profile), a row per block
void add_bias(const Params& p, int64_t blocks) {
  const auto width = static_cast<int64_t>(p[3]);
  const auto* x = reach<float>(p[0], blocks * width);
  const auto* bias = reach<float>(p[1], width);
  auto* sum = reach<float>(p[2], blocks * width);
  if (x == nullptr || bias == nullptr || sum == nullptr) return;
  for (int64_t i = 0; i < blocks * width; ++i) sum[i] = x[i] + bias[i % width];
}

// (sum, factor, y, count, scratch, profile)
void scale(const Params& p, int64_t /*blocks*/) {
  const auto count = static_cast<int64_t>(p[3]);
  const auto* sum = reach<float>(p[0], count);
  const auto* factor = reach<float>(p[1], 1);
  auto* y = reach<float>(p[2], count);
  if (sum == nullptr || factor == nullptr || y == nullptr) return;
  for (int64_t i = 0; i < count; ++i) y[i] = sum[i] * *factor;
}

// (y, total, width, scratch, profile), a row per block, through `width` floats of scratch
void row_sum(const Params& p, int64_t blocks) {
  const auto width = static_cast<int64_t>(p[2]);
  const auto* y = reach<float>(p[0], blocks * width);
  auto* total = reach<float>(p[1], blocks);
  auto* scratch = reach<float>(p[3], blocks * width);
  if (y == nullptr || total == nullptr || scratch == nullptr) return;
  std::memcpy(scratch, y, static_cast<size_t>(blocks * width) * sizeof(float));
  for (int64_t row = 0; row < blocks; ++row) {
    total[row] = 0;
    for (int64_t i = 0; i < width; ++i) total[row] += scratch[row * width + i];
  }
}

// (table, index, y, fault, rows, scratch, profile), an index per block
void gather(const Params& p, int64_t blocks) {
  const auto rows = static_cast<int64_t>(p[4]);
  const auto* table = reach<float>(p[0], rows);
  const auto* index = reach<int64_t>(p[1], blocks);
  auto* y = reach<float>(p[2], blocks);
  auto* fault = reach<int32_t>(p[3], 1);
  if (table == nullptr || index == nullptr || y == nullptr || fault == nullptr) return;
  for (int64_t i = 0; i < blocks; ++i) {
    const bool good = index[i] >= 0 && index[i] < rows;
    if (!good) *fault = 1;
    y[i] = good ? table[index[i]] : 0;
  }
}

// Any parameters: does what a wrong address does.
void crash(const Params& /*p*/, int64_t /*blocks*/) { state().lost = kIllegalAddress; }

}  // namespace

const std::map<std::string, Kernel>& kernels() {
  static const std::map<std::string, Kernel> all = {
      {"add_bias", add_bias}, {"scale", scale}, {"row_sum", row_sum},
      {"gather", gather},     {"crash", crash},
  };
  return all;
}

namespace {

void configure(int gpus, int major, int minor, int version, size_t memory) {
  State& s = state();
  const std::lock_guard<std::recursive_mutex> lock(s.mutex);
  s.gpus = gpus;
  s.major = major;
  s.minor = minor;
  s.version = version;
  s.memory = memory;
}

void fail_call(const char* symbol, int skip, int result) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const std::string name = symbol != nullptr ? symbol : "";
  if (skip < 0) {
    state().failures.erase(name);
  } else {
    state().failures[name] = {skip, result};
  }
}

int64_t count_calls(const char* symbol) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const auto found = state().calls.find(symbol != nullptr ? symbol : "");
  return found != state().calls.end() ? found->second : 0;
}

void clear_calls() {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().calls.clear();
}

aot_test::FakeLive count_live() {
  State& s = state();
  const std::lock_guard<std::recursive_mutex> lock(s.mutex);
  aot_test::FakeLive live{};
  live.device_blocks = static_cast<int64_t>(s.device_blocks.size());
  live.host_blocks = static_cast<int64_t>(s.host_blocks.size());
  for (const int count : s.retained) live.contexts += count;
  live.modules = static_cast<int64_t>(s.modules.size());
  live.streams = static_cast<int64_t>(s.handles.size());
  live.events = static_cast<int64_t>(s.events.size());
  live.graphs = static_cast<int64_t>(s.graphs.size() + s.execs.size());
  return live;
}

void revive() {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  drain_all();
  state().lost = kSuccess;
}

void set_probe(int (*probe)()) {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().probe = probe;
  state().probed = 0;
}

int64_t count_probed() {
  const std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().probed;
}

constexpr aot_test::FakeControls kControls = {
    configure,
    fail_call,
    count_calls,
    clear_calls,
    count_live,
    [] { return state().misuse.c_str(); },
    [] { state().misuse.clear(); },
    revive,
    set_probe,
    count_probed,
    [](void* stream) { state().capturing = static_cast<CUstream>(stream); },
};

}  // namespace
}  // namespace fake_cuda

extern "C" __attribute__((visibility("default"))) const aot_test::FakeControls*
fake_cuda_controls() {
  return &fake_cuda::kControls;
}

// The same for programs that have no struct of C++.
extern "C" __attribute__((visibility("default"))) void fake_cuda_probe(int (*probe)()) {
  fake_cuda::kControls.probe(probe);
}
extern "C" __attribute__((visibility("default"))) int64_t fake_cuda_probed() {
  return fake_cuda::kControls.probed();
}
