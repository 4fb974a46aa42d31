// Timelines of runs on the fake GPU: kernels and copies in the host's time, launches and waits.
#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "cuda_package.h"
#include "flow_package.h"

namespace {

using aot_test::Builder;
using aot_test::CudaRunning;
using aot_test::fake;
using aot_test::FakeMemory;
using aot_test::Opened;

constexpr int64_t kWidth = 8;

aot::Tensor rows_of(const std::vector<float>& x) {
  return aot::Tensor::borrow(x.data(), {static_cast<int64_t>(x.size()) / kWidth, kWidth});
}

class Ended {
 public:
  explicit Ended(aot_session* session) : trace_(end(session)) {}

  // "kernel add", "copy input x": those of the device, or of the host.
  std::vector<std::string> names(bool on_device) const {
    static const char* const kKinds[] = {"run",     "prepare", "kernel", "chunk", "call",
                                         "control", "copy",    "wait",   "launch"};
    std::vector<std::string> found;
    for (const aot_trace_event* event : events(on_device)) {
      std::string text = kKinds[event->kind];
      if (event->what[0] != '\0') text += std::string(" ") + event->what;
      found.push_back(text + " " + event->name);
    }
    return found;
  }
  std::vector<const aot_trace_event*> events(bool on_device) const {
    std::vector<const aot_trace_event*> found;
    for (size_t i = 0; i < trace_.size(); ++i) {
      if ((trace_[i].on_device != 0) == on_device) found.push_back(&trace_[i]);
    }
    return found;
  }

 private:
  static aot::Trace end(aot_session* session) {
    aot_trace* trace = nullptr;
    CHECK(aot_session_trace_end(session, &trace) == nullptr);
    return aot::Trace::adopt(trace);
  }
  aot::Trace trace_;
};

using Names = std::vector<std::string>;

TEST(the_device_shows_kernels_and_copies) {
  const Opened package(aot_test::small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x(3 * kWidth, 1.0f);
  for (int i = 0; i < 3; ++i) running.run(rows_of(x));  // graphs, from the second on
  CHECK(aot_session_trace_begin(running.get(), nullptr) == nullptr);
  running.run(rows_of(x));
  const Ended ended(running.get());
  const Names work = ended.names(true);
  CHECK(work == Names({"copy input x", "kernel add_bias", "kernel scale", "kernel row_sum",
                       "copy output y", "copy output total"}));
  const auto spans = ended.events(true);
  const auto host = ended.events(false);
  for (size_t i = 0; i < spans.size(); ++i) {
    CHECK(spans[i]->begin_ns <= spans[i]->end_ns);
    if (i > 0) CHECK(spans[i - 1]->end_ns <= spans[i]->begin_ns);
    // What the host launched is told once on each side.
    const auto same = [&](const aot_trace_event* event) {
      return event->flow == spans[i]->flow && event->kind == AOT_TRACE_LAUNCH &&
             std::string(event->name) == spans[i]->name;
    };
    CHECK_EQ(std::count_if(host.begin(), host.end(), same), std::ptrdiff_t{1});
  }
  CHECK_EQ(std::string(spans[1]->origin), "small.py:3 aten.add.Tensor");
  CHECK_EQ(spans[0]->bytes, int64_t{3 * kWidth * 4});
  const Names told = ended.names(false);
  CHECK_EQ(std::count(told.begin(), told.end(), "wait device wait"), std::ptrdiff_t{1});
  CHECK_EQ(told.back(), "run small");
  running.run(rows_of(x));
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST(a_traced_run_in_the_callers_stream_is_over) {
  const Opened package(aot_test::small_cuda_package());
  CudaRunning running(package.get());
  FakeMemory memory(2 * kWidth * sizeof(float));
  const std::vector<float> x(2 * kWidth, 1.0f);
  memory.write(x.data(), x.size() * sizeof(float));
  constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};
  const aot::Tensor input =
      aot::Tensor::borrow(memory.address(), kFloat32, {2, kWidth}, {}, {kDLCUDA, 0});
  CHECK(aot_session_trace_begin(running.get(), nullptr) == nullptr);
  running.run(input, false, memory.stream());
  const Ended ended(running.get());
  CHECK(ended.names(true) == Names({"kernel add_bias", "kernel scale", "kernel row_sum"}));
  CHECK_EQ(ended.events(true)[0]->track, reinterpret_cast<uint64_t>(memory.stream()));
}

TEST(loops_on_the_device) {
  Builder builder = aot_test::flow_package(true, 3, 0);
  aot_test::add_row_by_row(&builder);
  aot_test::add_cuda(&builder, {"sm_90"});
  const Opened package(builder);
  CudaRunning running(package.get());
  CHECK(aot_session_trace_begin(running.get(), nullptr) == nullptr);
  const std::vector<float> x(3 * kWidth, 1.0f);
  running.run(rows_of(x));
  const Ended ended(running.get());
  const Names work = ended.names(true);
  CHECK_EQ(std::count(work.begin(), work.end(), "kernel add_bias"), std::ptrdiff_t{3});
  const Names told = ended.names(false);
  CHECK_EQ(std::count(told.begin(), told.end(), "control repeat"), std::ptrdiff_t{1});
  CHECK_EQ(std::count(told.begin(), told.end(), "launch add_bias"), std::ptrdiff_t{3});
}

TEST(a_failed_run_leaves_the_timeline_good) {
  const Opened package(aot_test::gather_cuda_package());
  CudaRunning running(package.get());
  CHECK(aot_session_trace_begin(running.get(), nullptr) == nullptr);
  const std::vector<int64_t> bad = {9};
  const std::vector<int64_t> good = {1};
  CHECK_FAILS(running.run(aot::Tensor::borrow(bad.data(), {1})), AOT_INVALID_ARGUMENT, "index");
  running.run(aot::Tensor::borrow(good.data(), {1}));
  const Ended ended(running.get());
  const Names told = ended.names(false);
  CHECK_EQ(std::count(told.begin(), told.end(), "run gather"), std::ptrdiff_t{2});
  CHECK_EQ(ended.events(true).back()->run, uint64_t{2});
}

}  // namespace

TEST_MAIN
