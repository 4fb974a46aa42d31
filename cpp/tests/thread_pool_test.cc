#include "thread_pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using aot_rt::Crew;

// Marks each chunk that was done, and counts how many at once sit in one seat.
struct Job {
  explicit Job(int64_t chunks, int32_t threads)
      : done(static_cast<size_t>(chunks)), seats(static_cast<size_t>(threads)) {}

  static void work(void* data, int32_t seat, int64_t chunk) {
    auto* job = static_cast<Job*>(data);
    if (job->seats[static_cast<size_t>(seat)].fetch_add(1) != 0) job->crowded = true;
    ++job->done[static_cast<size_t>(chunk)];
    job->seats[static_cast<size_t>(seat)].fetch_sub(1);
  }

  bool all_done_once() const {
    for (const int count : done) {
      if (count != 1) return false;
    }
    return !crowded;
  }

  std::vector<int> done;  // not atomic: each chunk is one thread's
  std::vector<std::atomic<int>> seats;
  std::atomic<bool> crowded{false};
};

TEST(every_chunk_is_done_once) {
  for (const int32_t threads : {1, 2, 4}) {
    Crew crew(threads, nullptr);
    CHECK_EQ(crew.threads(), threads);
    for (const int64_t chunks : {1, 2, 3, 8, 100, 1000}) {
      for (int repeat = 0; repeat < 20; ++repeat) {
        Job job(chunks, threads);
        crew.run(Job::work, &job, chunks);
        CHECK(job.all_done_once());
      }
    }
  }
}

TEST(work_after_a_pause_wakes_helpers) {
  Crew crew(2, nullptr);
  for (int round = 0; round < 5; ++round) {
    Job job(64, 2);
    crew.run(Job::work, &job, 64);
    CHECK(job.all_done_once());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(crews_share_the_pool) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&right] {
      Crew crew(3, nullptr);
      for (int round = 0; round < 100; ++round) {
        Job job(16, 3);
        crew.run(Job::work, &job, 16);
        if (job.all_done_once()) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(right.load(), 800);
}

TEST(the_callers_executor) {
  struct Calls {
    int32_t most = 0;
  } calls;
  aot_executor executor{sizeof(executor), &calls, 3,
                        [](void* context, int32_t count, void (*task)(void*, int32_t), void* data) {
                          auto* seen = static_cast<Calls*>(context);
                          seen->most = std::max(seen->most, count);
                          std::vector<std::thread> threads;
                          for (int32_t i = 0; i < count; ++i) threads.emplace_back(task, data, i);
                          for (std::thread& thread : threads) thread.join();
                        }};
  Crew crew(1, &executor);
  CHECK_EQ(crew.threads(), 3);
  Job job(50, 3);
  crew.run(Job::work, &job, 50);
  CHECK(job.all_done_once());
  CHECK_EQ(calls.most, 3);
}

TEST(an_executor_that_drops_tasks_loses_no_work) {
  aot_executor executor{sizeof(executor), nullptr, 4,
                        [](void*, int32_t, void (*)(void*, int32_t), void*) {}};
  Crew crew(1, &executor);
  Job job(50, 4);
  crew.run(Job::work, &job, 50);
  CHECK(job.all_done_once());
}

TEST(a_child_process_has_a_pool_of_its_own) {
#if !defined(__SANITIZE_THREAD__)  // which does not follow threads into children
  Crew before(2, nullptr);
  Job warm(8, 2);
  before.run(Job::work, &warm, 8);
  const pid_t child = fork();
  if (child == 0) {
    Crew crew(2, nullptr);
    Job job(64, 2);
    crew.run(Job::work, &job, 64);
    Job inherited(64, 2);
    before.run(Job::work, &inherited, 64);
    _exit(job.all_done_once() && inherited.all_done_once() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

TEST(there_is_a_core_to_use) { CHECK(aot_rt::usable_cores() >= 1); }

}  // namespace

TEST_MAIN
