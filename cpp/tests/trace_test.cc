// Timelines of runs on the CPU: what they hold, when they end, and ranges for tools.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "flow_package.h"
#include "package_builder.h"

namespace {

using aot_test::AlignedBytes;
using aot_test::Builder;

constexpr int64_t kWidth = 8;

// A session through the C++ interface.
class Traced {
 public:
  explicit Traced(const Builder& builder, int32_t threads = 1)
      : bytes_(builder.build()),
        package_(aot::Package::open_memory(bytes_.bytes().data, bytes_.bytes().size).value()) {
    aot::SessionOptions options;
    options.num_threads = threads;
    session_.emplace(aot::Session::create(package_, options).value());
  }

  aot::Session& session() { return *session_; }
  aot::Package& package() { return package_; }
  void run(int64_t rows) {
    const std::vector<float> x(static_cast<size_t>(rows * kWidth), 1.0f);
    session_->run({aot::Tensor::borrow(x.data(), {rows, kWidth})}).value();
  }
  std::vector<aot_trace_event> end() {
    const aot::Trace trace = session_->end_trace().value();
    CHECK_EQ(trace.dropped(), uint64_t{0});
    std::vector<aot_trace_event> events;
    for (size_t i = 0; i < trace.size(); ++i) {
      events.push_back(trace[i]);  // strings are the package's, which the trace kept alive
    }
    return events;
  }

 private:
  AlignedBytes bytes_;
  aot::Package package_;
  std::optional<aot::Session> session_;
};

std::vector<aot_trace_event> of_kind(const std::vector<aot_trace_event>& events, int32_t kind) {
  std::vector<aot_trace_event> found;
  for (const aot_trace_event& event : events) {
    if (event.kind == kind) found.push_back(event);
  }
  return found;
}

bool within(const aot_trace_event& inner, const aot_trace_event& outer) {
  return outer.begin_ns <= inner.begin_ns && inner.begin_ns <= inner.end_ns &&
         inner.end_ns <= outer.end_ns;
}

TEST(every_step_has_its_span_within_its_run) {
  Traced traced(aot_test::small_package());
  CHECK(traced.session().begin_trace().ok());
  traced.run(3);
  traced.run(5);
  const auto events = traced.end();
  const auto runs = of_kind(events, AOT_TRACE_RUN);
  const auto kernels = of_kind(events, AOT_TRACE_KERNEL);
  CHECK_EQ(runs.size(), size_t{2});
  CHECK_EQ(of_kind(events, AOT_TRACE_PREPARE).size(), size_t{2});
  CHECK_EQ(kernels.size(), size_t{6});
  CHECK_EQ(std::string(runs[0].name), "small");
  for (size_t i = 0; i < kernels.size(); ++i) {
    const aot_trace_event& kernel = kernels[i];
    CHECK_EQ(kernel.run, i < 3 ? uint64_t{1} : uint64_t{2});
    CHECK_EQ(kernel.step, static_cast<int32_t>(i % 3));
    CHECK(within(kernel, runs[i < 3 ? 0 : 1]));
    CHECK_EQ(kernel.on_device, 0);
    CHECK_EQ(kernel.track, static_cast<uint64_t>(::gettid()));
  }
  CHECK_EQ(std::string(kernels[0].name), "add_bias");
  CHECK_EQ(std::string(kernels[0].origin), "small.py:3 aten.add.Tensor");
  CHECK_EQ(kernels[0].bytes, int64_t{(3 * kWidth + kWidth + 3 * kWidth) * 4});
}

TEST(names_live_as_long_as_the_trace) {
  std::optional<aot::Trace> trace;
  {
    Traced traced(aot_test::small_package());
    CHECK(traced.session().begin_trace().ok());
    traced.run(2);
    trace.emplace(traced.session().end_trace().value());
    // Package and session go.
  }
  std::set<std::string> names;
  for (size_t i = 0; i < trace->size(); ++i) {
    names.insert(std::string((*trace)[i].name) + " " + (*trace)[i].origin);
  }
  CHECK_EQ(names.count("add_bias small.py:3 aten.add.Tensor"), size_t{1});
}

TEST(workers_show_their_chunks) {
  Traced traced(aot_test::small_package(), 2);
  CHECK(traced.session().begin_trace().ok());
  traced.run(64);
  const auto events = traced.end();
  const auto chunks = of_kind(events, AOT_TRACE_CHUNK);
  const auto kernels = of_kind(events, AOT_TRACE_KERNEL);
  CHECK(chunks.size() >= 2);
  for (const aot_trace_event& chunk : chunks) {
    CHECK(chunk.worker == 0 || chunk.worker == 1);
    CHECK_EQ(chunk.worker == 0, chunk.track == static_cast<uint64_t>(::gettid()));
    CHECK(within(chunk, kernels[static_cast<size_t>(chunk.step)]));
    CHECK_EQ(std::string(chunk.origin), kernels[static_cast<size_t>(chunk.step)].origin);
  }
}

TEST(copies_are_named) {
  Traced traced(aot_test::state_package());
  CHECK(traced.session().begin_trace().ok());
  std::vector<float> x(2 * kWidth, 1.0f);
  const auto strided = aot::Tensor::borrow(x.data(), aot::dtype_of<float>(), {1, kWidth}, {1, 2});
  const DLTensor* views[] = {&strided.view()};
  traced.session().run(views, 1).value();
  std::vector<std::string> copies;
  for (const aot_trace_event& copy : of_kind(traced.end(), AOT_TRACE_COPY)) {
    copies.push_back(std::string(copy.what) + " " + copy.name + " " + std::to_string(copy.bytes));
  }
  // What comes in another layout, and what the run changes.
  CHECK(copies == std::vector<std::string>({"input x 32", "state bias 32", "input x 32"}));
}

TEST(control_steps_hold_what_they_run) {
  Builder builder = aot_test::flow_package(true, 3, 0);
  aot_test::add_row_by_row(&builder);
  Traced traced(builder);
  CHECK(traced.session().begin_trace().ok());
  traced.run(3);
  const auto events = traced.end();
  const auto controls = of_kind(events, AOT_TRACE_CONTROL);
  CHECK_EQ(controls.size(), size_t{1});
  CHECK_EQ(std::string(controls[0].name), "repeat");
  size_t turns = 0;
  for (const aot_trace_event& kernel : of_kind(events, AOT_TRACE_KERNEL)) {
    if (kernel.step == 1) turns += within(kernel, controls[0]) ? 1 : 0;
  }
  CHECK_EQ(turns, size_t{3});
}

TEST(a_failed_run_has_a_span_and_the_next_one_too) {
  Traced traced(aot_test::gather_package());
  CHECK(traced.session().begin_trace().ok());
  const std::vector<int64_t> bad = {9};
  const std::vector<int64_t> good = {1};
  CHECK(!traced.session().run({aot::Tensor::borrow(bad.data(), {1})}).ok());
  CHECK(traced.session().run({aot::Tensor::borrow(good.data(), {1})}).ok());
  const auto runs = of_kind(traced.end(), AOT_TRACE_RUN);
  CHECK_EQ(runs.size(), size_t{2});
  CHECK_EQ(runs[1].run, uint64_t{2});
  CHECK(runs[0].end_ns <= runs[1].begin_ns);
}

TEST(what_has_no_room_is_counted) {
  Traced traced(aot_test::small_package());
  aot::TraceOptions options;
  options.capacity = 2;
  CHECK(traced.session().begin_trace(options).ok());
  traced.run(3);
  const aot::Trace trace = traced.session().end_trace().value();
  CHECK_EQ(trace.size(), size_t{2});
  CHECK(trace.dropped() >= 3);  // a wait that took its time is one more
}

// Whether a thread of this process is asleep.
bool sleeps(uint64_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 4, ") S ") == 0;
}

TEST(a_thread_that_waits_for_the_session_shows_it) {
  Traced traced(aot_test::small_package());
  CHECK(traced.session().begin_trace().ok());
  struct Gate {
    std::atomic<bool> inside{false};
    std::atomic<bool> open{false};
  } gate;
  const auto hold = [](void* context, size_t, size_t, const void*, size_t) {
    auto* the = static_cast<Gate*>(context);
    the->inside.store(true);
    while (!the->open.load()) std::this_thread::yield();
  };
  CHECK(traced.session().set_observer(hold, &gate).ok());
  std::thread first([&] { traced.run(1); });
  while (!gate.inside.load()) std::this_thread::yield();
  std::atomic<uint64_t> waiting{0};
  std::thread second([&] {
    waiting.store(static_cast<uint64_t>(::gettid()));
    traced.run(1);
  });
  while (waiting.load() == 0) std::this_thread::yield();
  while (!sleeps(waiting.load())) std::this_thread::yield();  // at the lock
  gate.open.store(true);
  first.join();
  second.join();
  CHECK(traced.session().set_observer(nullptr, nullptr).ok());
  size_t waited = 0;
  for (const aot_trace_event& wait : of_kind(traced.end(), AOT_TRACE_WAIT)) {
    CHECK_EQ(std::string(wait.what), "session");
    waited += wait.track == waiting.load() ? 1 : 0;
  }
  CHECK_EQ(waited, size_t{1});
}

TEST(a_trace_begins_and_ends_once) {
  Traced traced(aot_test::small_package());
  aot::Session& session = traced.session();
  CHECK_EQ(session.end_trace().error().code(), AOT_INVALID_ARGUMENT);
  CHECK(session.begin_trace().ok());
  CHECK_EQ(session.begin_trace().error().code(), AOT_INVALID_ARGUMENT);
  CHECK_EQ(session.clone().value().end_trace().error().code(), AOT_INVALID_ARGUMENT);
  CHECK_EQ(session.end_trace().value().size(), size_t{0});
  aot::TraceOptions options;
  options.events = false;
  CHECK_EQ(session.begin_trace(options).error().code(), AOT_INVALID_ARGUMENT);
  options = {};
  options.capacity = uint64_t{1} << 33;
  CHECK_EQ(session.begin_trace(options).error().code(), AOT_INVALID_ARGUMENT);
  aot_status* const status = aot_session_trace_end(session.get(), nullptr);
  CHECK_EQ(aot_status_code(status), AOT_INVALID_ARGUMENT);
  aot_status_free(status);
  aot_trace_free(nullptr);
}

std::string take_ranges() {
  void* tool = ::dlopen(AOT_NVTX_TOOL, RTLD_LAZY);
  const auto take = reinterpret_cast<const char* (*)()>(::dlsym(tool, "take_ranges"));
  return take();
}

TEST(ranges_go_to_the_tool_that_watches) {
  ::setenv("NVTX_INJECTION64_PATH", AOT_NVTX_TOOL, 1);  // as a tool does it
  Traced traced(aot_test::small_package());
  traced.run(2);
  CHECK_EQ(take_ranges(), "");  // nobody has asked for them
  for (const bool events : {true, false}) {
    aot::TraceOptions options;
    options.nvtx = true;
    options.events = events;
    CHECK(traced.session().begin_trace(options).ok());
    traced.run(2);
    CHECK_EQ(traced.session().end_trace().value().size() != 0, events);
    CHECK_EQ(take_ranges(), "(small(prepare)(add_bias)(scale)(row_sum))");
  }
}

std::string line_of_map(const std::string& part) {
  std::ifstream file("/tmp/perf-" + std::to_string(::getpid()) + ".map");
  std::string line;
  while (std::getline(file, line)) {
    if (line.find(part) != std::string::npos) return line;
  }
  return "";
}

TEST(kernels_have_names_for_perf) {
  const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  Traced traced(aot_test::small_package());
  CHECK(traced.package().write_perf_map().ok());
  const std::string line = line_of_map(" add_bias (small.py:3 aten.add.Tensor)");
  size_t begin = 0;
  size_t size = 0;
  CHECK_EQ(std::sscanf(line.c_str(), "%zx %zx ", &begin, &size), 2);
  CHECK(size > 0);
  Dl_info info{};
  CHECK(::dladdr(reinterpret_cast<void*>(begin), &info) != 0);
  CHECK(std::string(info.dli_fname).find("/proc/self/fd/") == 0);  // code that is in no file
  ::unlink(path.c_str());
  CHECK_EQ(::symlink("/tmp/elsewhere", path.c_str()), 0);
  CHECK_EQ(traced.package().write_perf_map().error().code(), AOT_DEVICE_ERROR);
  ::unlink(path.c_str());
}

}  // namespace

TEST_MAIN
