// Many threads, sessions and packages at once; run under the tsan preset too.
#include <atomic>
#include <thread>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "package_builder.h"

namespace {

using aot_test::Opened;

constexpr int64_t kWidth = 64;

// One run on `rows` rows of `fill`; whether the sums are right.
bool run_once(aot_session* session, int64_t rows, float fill) {
  const std::vector<float> x(static_cast<size_t>(rows * kWidth), fill);
  const auto input = aot::Tensor::borrow(x.data(), {rows, kWidth});
  const DLTensor* views[] = {&input.view()};
  DLManagedTensor* outputs[2] = {};
  if (aot_status* status = aot_session_run(session, views, 1, outputs, 2, nullptr)) {
    aot_status_free(status);
    return false;
  }
  const float expected = 2 * (kWidth * fill + kWidth * (kWidth - 1) / 2);
  bool right = true;
  for (int64_t i = 0; i < rows; ++i) {
    right = right && static_cast<const float*>(outputs[1]->dl_tensor.data)[i] == expected;
  }
  for (DLManagedTensor* output : outputs) output->deleter(output);
  return right;
}

aot_session* make_session(aot_package* package, int32_t threads) {
  aot_session_options options{};
  options.struct_size = sizeof(options);
  options.num_threads = threads;
  aot_session* session = nullptr;
  aot_status* status = aot_session_create(package, "cpu", &options, &session);
  CHECK(status == nullptr);
  aot_status_free(status);
  return session;
}

template <typename Body>
void in_threads(int count, Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(eight_threads_with_a_session_each) {
  Opened package(aot_test::small_package(kWidth, 0));
  std::atomic<int> right{0};
  in_threads(8, [&](int id) {
    aot_session* session = make_session(package.get(), 1 + id % 3);
    for (int i = 0; i < 60; ++i) {
      if (run_once(session, 1 + (i * 7 + id) % 40, static_cast<float>(id + i))) ++right;
    }
    aot_session_free(session);
  });
  CHECK_EQ(right.load(), 8 * 60);
}

TEST(eight_threads_on_two_sessions) {
  Opened package(aot_test::small_package(kWidth, 0));
  aot_session* sessions[] = {make_session(package.get(), 2), make_session(package.get(), 1)};
  std::atomic<int> right{0};
  in_threads(8, [&](int id) {
    for (int i = 0; i < 60; ++i) {
      if (run_once(sessions[id % 2], 1 + (i + id) % 30, static_cast<float>(id))) ++right;
    }
  });
  CHECK_EQ(right.load(), 8 * 60);
  for (aot_session* session : sessions) aot_session_free(session);
}

TEST(opening_and_closing_at_once) {
  const aot_test::AlignedBytes bytes(aot_test::small_package(kWidth, 0).build());
  std::atomic<int> right{0};
  in_threads(4, [&](int id) {
    for (int i = 0; i < 20; ++i) {
      aot_package* package = nullptr;
      aot_status* status =
          aot_package_open_memory(bytes.bytes().data, bytes.bytes().size, nullptr, &package);
      if (status != nullptr) continue;
      aot_session* session = make_session(package, 2);
      aot_package_free(package);  // the session keeps what it needs
      if (run_once(session, 9, static_cast<float>(id))) ++right;
      aot_session_free(session);
    }
  });
  CHECK_EQ(right.load(), 4 * 20);
}

TEST(outputs_freed_in_another_thread) {
  Opened package(aot_test::small_package(kWidth, 0));
  aot_session* session = make_session(package.get(), 1);
  const std::vector<float> x(kWidth * 4, 1.0f);
  const auto input = aot::Tensor::borrow(x.data(), {4, kWidth});
  const DLTensor* views[] = {&input.view()};
  for (int i = 0; i < 50; ++i) {
    DLManagedTensor* outputs[2] = {};
    CHECK(aot_session_run(session, views, 1, outputs, 2, nullptr) == nullptr);
    std::thread([&outputs] {
      for (DLManagedTensor* output : outputs) output->deleter(output);
    }).join();
  }
  aot_session_free(session);
}

}  // namespace

TEST_MAIN
