// The queue of a model, and the sessions that work on it.
#ifndef AOT_SERVE_SCHEDULER_H_
#define AOT_SERVE_SCHEDULER_H_

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "aot/aot.hpp"
#include "batch.h"
#include "call.h"
#include "contract.h"
#include "latency.h"
#include "metrics.h"

namespace serve {

struct ScheduleOptions {
  size_t max_queue = 256;
  int64_t max_batch = 1;                // rows; 1: calls run one by one
  std::chrono::microseconds delay{0};   // that a call may wait for others to join it
  std::chrono::nanoseconds timeout{0};  // the most that any call is given; 0: no limit
  Latency latency;                      // says which batches pay
  std::vector<int32_t> cpus;            // that the sessions' threads keep to; empty: all
};

// Every call that is taken ends once: with outputs, with the model's error, by its deadline, or
// because it was cancelled. Safe to use from any thread.
class Scheduler {
 public:
  Scheduler(std::shared_ptr<const Contract> contract, std::vector<aot::Session> sessions,
            ScheduleOptions options, ModelMetrics* metrics);
  ~Scheduler() { finish(); }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Puts a call into the queue. False, and nothing has happened, when the scheduler is finishing.
  // Throws aot::Error where the queue is full. With `here` the calling thread runs the call itself
  // where a session is free and the run is expected to be short: waking another thread would take
  // longer. It is not held for much more than 2 ms: what takes longer goes into the queue after
  // all.
  bool submit(const std::shared_ptr<Call>& call, bool here = false);

  // The call is not wanted any more: it ends with `why`, at once while it waits, and at the end of
  // the step that is under way else. Nothing happens to one that has ended.
  void cancel(const std::shared_ptr<Call>& call, const aot::Error& why);

  // Takes no more calls, ends those that it has, and its threads. Not from a call's `done`.
  void finish();

  // Ends all calls that it has, in the queue and running, with `why`.
  void cancel_all(const aot::Error& why);

  size_t waiting() const;

 private:
  // A session and its thread. It is in `idle_`, or its thread has been called or works, or another
  // thread has borrowed the session.
  struct Worker {
    Worker(aot::Session given, aot::Cancellation cancel)
        : session(std::move(given)), cancellation(std::move(cancel)) {}

    aot::Session session;
    aot::Cancellation cancellation;
    std::vector<std::vector<char>> memory;  // joined inputs
    Batch* batch = nullptr;
    bool called = false;  // to look at the queue
    std::condition_variable wake;
    Clock::time_point looked = Clock::time_point::min();  // at the memory that the session holds
    std::thread thread;
  };

  // What runs took of late, and the bytes of their inputs. The greatest: it rises at once and
  // falls slowly.
  struct Recent {
    double seconds = -1;  // -1: nothing has run
    double bytes = 1;
    void add(double run_seconds, double run_bytes);
    double expect(double run_bytes) const { return seconds * std::max(1.0, run_bytes / bytes); }
  };

  void work(Worker& worker);
  void keep_time();
  void note_arrival(Call& call);
  void call_worker();
  void call_all();
  bool take(std::unique_lock<std::mutex>& lock, Worker& worker, Batch& batch);
  void gather(std::unique_lock<std::mutex>& lock, Worker& worker, Batch& batch);
  void take_alike(Batch& batch);
  bool worth_waiting(int64_t rows, const Call& first) const;
  Clock::time_point gathers_until(const Call& first) const;
  void take_call(Batch& batch, const std::shared_ptr<Call>& call);
  Worker* borrow(const Call& call);
  void run_here(Worker& worker, Batch& batch);
  void run(Worker& worker, Batch& batch);
  aot::Result<Outputs> run_once(Worker& worker, Batch& batch, Clock::time_point limit = kNever);
  void look_at_memory(Worker& worker);
  void answer(Batch& batch, aot::Result<Outputs> result, double run_s, Clock::time_point begun);
  void end(const std::shared_ptr<Call>& call, Outcome outcome);
  std::vector<std::shared_ptr<Call>> take_expired(Clock::time_point now);

  const std::shared_ptr<const Contract> contract_;
  const ScheduleOptions options_;
  const bool batching_;
  ModelMetrics* const metrics_;

  mutable std::mutex mutex_;
  std::condition_variable timed_;  // something for the thread that keeps time
  std::deque<std::shared_ptr<Call>> queue_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;  // the one that worked last stands last
  std::thread timekeeper_;
  bool closed_ = false;
  Worker* gatherer_ = nullptr;  // waits for calls to join its first; nobody else takes any
  Recent recent_;
  Clock::time_point next_expiry_ = kNever;
  Clock::time_point last_arrival_ = Clock::time_point::min();
  double interval_s_;  // between arrivals, of late
};

}  // namespace serve

#endif  // AOT_SERVE_SCHEDULER_H_
