#include "scheduler.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

namespace serve {
namespace {

constexpr std::chrono::seconds kMemoryPeriod{1};  // between looks at what sessions hold
// Waking a sleeping thread and being woken takes 10 to 40 us each: of a longer run no tenth.
constexpr double kShortRun = 500e-6;
// A run on a caller's thread ends after this time, and is done by a thread of the session's.
constexpr std::chrono::milliseconds kMostHere{2};

// The longest distance between arrivals that counts, in seconds. It is beyond the time that a call
// may wait for others, so that nobody waits for who comes seldom.
double longest_interval(std::chrono::microseconds delay) {
  return std::max(1.0, 2 * std::chrono::duration<double>(delay).count());
}

aot::Error deadline_error(const Contract& contract) {
  return aot::Error(AOT_DEADLINE_EXCEEDED, "model '" + contract.model +
                                               "': the request's time was over before its answer");
}

double input_bytes(const Call& call) {
  double bytes = 0;
  for (const Input& input : call.request.inputs) bytes += static_cast<double>(input.bytes);
  return bytes;
}

// A machine that lacks one of the cores runs on the others.
void keep_to(const std::vector<int32_t>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int32_t cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

Scheduler::Scheduler(std::shared_ptr<const Contract> contract, std::vector<aot::Session> sessions,
                     ScheduleOptions options, ModelMetrics* metrics)
    : contract_(std::move(contract)),
      options_(std::move(options)),
      batching_(options_.max_batch > 1 && can_batch(*contract_)),
      metrics_(metrics),
      interval_s_(longest_interval(options_.delay)) {
  for (aot::Session& session : sessions) {
    workers_.push_back(
        std::make_unique<Worker>(std::move(session), aot::Cancellation::create().value()));
  }
  for (auto& worker : workers_) {
    worker->thread = std::thread([this, &worker = *worker] { work(worker); });
  }
  timekeeper_ = std::thread([this] { keep_time(); });
}

bool Scheduler::submit(const std::shared_ptr<Call>& call, bool here) {
  if (batching_) set_batch_key(*contract_, *call);
  std::unique_lock<std::mutex> lock(mutex_);
  if (closed_) return false;
  if (call->ended) {
    lock.unlock();
    end(call, {call->ended, nullptr});
    return true;
  }
  if (queue_.size() >= options_.max_queue) {
    throw aot::Error(AOT_UNAVAILABLE, "model '" + contract_->model +
                                          "': " + std::to_string(queue_.size()) +
                                          " requests wait already; try again later");
  }
  note_arrival(*call);
  if (Worker* worker = here ? borrow(*call) : nullptr) {
    Batch batch(worker->cancellation.get());
    worker->cancellation.reset();
    worker->batch = &batch;
    take_call(batch, call);
    lock.unlock();
    run_here(*worker, batch);
    return true;
  }
  call->state = Call::State::kQueued;
  queue_.push_back(call);
  metrics_->queue_length->Set(static_cast<double>(queue_.size()));
  const bool sooner = call->deadline < next_expiry_;
  call_worker();
  lock.unlock();
  if (sooner) timed_.notify_one();
  return true;
}

void Scheduler::note_arrival(Call& call) {
  if (options_.timeout.count() != 0) {
    call.deadline = std::min(call.deadline, call.arrived + options_.timeout);
  }
  double gap = longest_interval(options_.delay);
  if (last_arrival_ != Clock::time_point::min()) {
    gap = std::min(gap, seconds_between(last_arrival_, call.arrived));
  }
  interval_s_ = 0.8 * interval_s_ + 0.2 * gap;
  last_arrival_ = call.arrived;
}

// Lets a thread look at the queue: the one that gathers, or one that is idle. Those that work look
// by themselves.
void Scheduler::call_worker() {
  if (gatherer_ != nullptr) return gatherer_->wake.notify_one();
  if (idle_.empty()) return;
  Worker* worker = idle_.back();
  idle_.pop_back();
  worker->called = true;
  worker->wake.notify_one();
}

void Scheduler::call_all() {
  if (gatherer_ != nullptr) gatherer_->wake.notify_one();
  for (Worker* worker : idle_) {
    worker->called = true;
    worker->wake.notify_one();
  }
  idle_.clear();
}

// A free session for a call that the caller's thread may run now, or null. Calls that may be joined
// are run so only while there is nothing to join them with.
Scheduler::Worker* Scheduler::borrow(const Call& call) {
  if (!queue_.empty() || gatherer_ != nullptr || idle_.empty()) return nullptr;
  // What has changed cannot be run again, and these threads keep to no cores.
  if (contract_->changes_inputs || !options_.cpus.empty()) return nullptr;
  if (batching_ && !call.key.empty()) {
    if (idle_.size() < workers_.size() || worth_waiting(call.rows, call)) return nullptr;
  }
  if (recent_.seconds < 0 || recent_.expect(input_bytes(call)) > kShortRun) return nullptr;
  Worker* worker = idle_.back();
  idle_.pop_back();
  return worker;
}

// Runs a call by this thread, and gives the session back.
void Scheduler::run_here(Worker& worker, Batch& batch) {
  const std::shared_ptr<Call> call = batch.calls()[0];
  const Clock::time_point begun = Clock::now();
  aot::Result<Outputs> result = run_once(worker, batch, begun + kMostHere);
  const Clock::time_point ended = Clock::now();
  const bool cut = !result.ok() && result.error().code() == AOT_DEADLINE_EXCEEDED &&
                   ended >= begun + kMostHere && ended < call->deadline;
  if (!cut) answer(batch, std::move(result), seconds_between(begun, ended), begun);
  look_at_memory(worker);
  std::optional<aot::Error> why;
  bool sooner = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    worker.batch = nullptr;
    if (cut) {
      recent_.add(seconds_between(begun, ended), input_bytes(*call));
      call->batch = nullptr;
      why = call->ended;
      call->state = why ? Call::State::kDone : Call::State::kQueued;
      if (!why) queue_.push_front(call);
      sooner = !why && call->deadline < next_expiry_;
    }
    idle_.push_back(&worker);
    if (closed_) {
      call_all();
    } else if (!queue_.empty()) {
      call_worker();
    }
  }
  if (sooner) timed_.notify_one();
  if (why) end(call, {why, nullptr});
}

void Scheduler::Recent::add(double run_seconds, double run_bytes) {
  constexpr double kKept = 0.75;
  const auto follow = [](double& value, double now) {
    value = now > value ? now : kKept * value + (1 - kKept) * now;
  };
  follow(seconds, run_seconds);
  follow(bytes, std::max(1.0, run_bytes));
}

void Scheduler::cancel(const std::shared_ptr<Call>& call, const aot::Error& why) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    switch (call->state) {
      case Call::State::kNew:
        call->ended = why;
        return;
      case Call::State::kTaken:
        if (!call->ended) {
          call->ended = why;
          call->batch->leave();
        }
        return;
      case Call::State::kDone:
        return;
      case Call::State::kQueued:
        queue_.erase(std::find(queue_.begin(), queue_.end(), call));
        metrics_->queue_length->Set(static_cast<double>(queue_.size()));
        call->state = Call::State::kDone;
        break;
    }
  }
  end(call, {why, nullptr});
}

void Scheduler::cancel_all(const aot::Error& why) {
  std::deque<std::shared_ptr<Call>> waiting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting.swap(queue_);
    for (const auto& call : waiting) call->state = Call::State::kDone;
    for (const auto& worker : workers_) {
      if (worker->batch == nullptr) continue;
      for (const auto& call : worker->batch->calls()) {
        if (call->state != Call::State::kTaken || call->ended) continue;
        call->ended = why;
        call->batch->leave();
      }
    }
  }
  for (const auto& call : waiting) end(call, {why, nullptr});
}

void Scheduler::finish() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    call_all();
  }
  timed_.notify_all();
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
  timed_.notify_all();
  if (timekeeper_.joinable()) timekeeper_.join();
}

size_t Scheduler::waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.size();
}

void Scheduler::keep_time() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!closed_ || !queue_.empty()) {
    next_expiry_ = kNever;
    for (const auto& call : queue_) next_expiry_ = std::min(next_expiry_, call->deadline);
    if (next_expiry_ == kNever) {
      timed_.wait(lock);
    } else {
      timed_.wait_until(lock, next_expiry_);
    }
    const std::vector<std::shared_ptr<Call>> expired = take_expired(Clock::now());
    if (expired.empty()) continue;
    lock.unlock();
    for (const auto& call : expired) end(call, {deadline_error(*contract_), nullptr});
    lock.lock();
  }
}

std::vector<std::shared_ptr<Call>> Scheduler::take_expired(Clock::time_point now) {
  std::vector<std::shared_ptr<Call>> expired;
  const auto kept = std::stable_partition(queue_.begin(), queue_.end(),
                                          [now](const auto& call) { return call->deadline > now; });
  for (auto it = kept; it != queue_.end(); ++it) {
    (*it)->state = Call::State::kDone;
    expired.push_back(*it);
  }
  queue_.erase(kept, queue_.end());
  metrics_->queue_length->Set(static_cast<double>(queue_.size()));
  return expired;
}

void Scheduler::work(Worker& worker) {
  keep_to(options_.cpus);
  while (true) {
    Batch batch(worker.cancellation.get());
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!take(lock, worker, batch)) break;
    }
    run(worker, batch);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      worker.batch = nullptr;
    }
    look_at_memory(worker);
  }
  timed_.notify_all();  // the queue may have become empty for good
}

void Scheduler::look_at_memory(Worker& worker) {
  const Clock::time_point now = Clock::now();
  if (worker.looked != Clock::time_point::min() && now - worker.looked < kMemoryPeriod) return;
  worker.looked = now;
  if (const auto memory = worker.session.memory(); memory.ok()) {
    const aot_memory_info& held = memory.value();
    metrics_->memory_bytes->Set(static_cast<double>(held.plan_bytes + held.state_bytes +
                                                    held.workspace_bytes + held.shared_bytes +
                                                    held.output_bytes));
  }
}

// Waits for calls and takes those of the next run. False: there will be none.
bool Scheduler::take(std::unique_lock<std::mutex>& lock, Worker& worker, Batch& batch) {
  while (queue_.empty() || gatherer_ != nullptr) {
    if (queue_.empty() && closed_) return false;
    worker.called = false;
    idle_.push_back(&worker);
    worker.wake.wait(lock, [&worker] { return worker.called; });
  }
  worker.cancellation.reset();
  worker.batch = &batch;
  const std::shared_ptr<Call> first = queue_.front();
  queue_.pop_front();
  take_call(batch, first);
  if (batching_ && !first->key.empty()) gather(lock, worker, batch);
  metrics_->queue_length->Set(static_cast<double>(queue_.size()));
  return true;
}

// Adds to a batch of one what may join it, and waits for more where that pays.
void Scheduler::gather(std::unique_lock<std::mutex>& lock, Worker& worker, Batch& batch) {
  const std::shared_ptr<Call> first = batch.calls()[0];
  take_alike(batch);
  while (!closed_ && queue_.empty() && worth_waiting(batch.rows(), *first)) {
    gatherer_ = &worker;
    worker.wake.wait_until(lock, gathers_until(*first));
    take_alike(batch);
  }
  if (gatherer_ == nullptr) return;
  gatherer_ = nullptr;
  if (!queue_.empty() || closed_) call_all();
}

Clock::time_point Scheduler::gathers_until(const Call& first) const {
  return std::min(first.arrived + options_.delay, first.deadline);
}

// Nobody waits while another kind of request stands in the queue, nor for one that is not expected:
// the next comes after about as long as the last ones did.
bool Scheduler::worth_waiting(int64_t rows, const Call& first) const {
  if (rows >= options_.max_batch) return false;
  const double left = seconds_between(Clock::now(), gathers_until(first));
  if (left <= 0 || interval_s_ >= left) return false;
  return options_.latency.pays(rows, first.rows);
}

void Scheduler::take_alike(Batch& batch) {
  const Dim& dim = contract_->inputs[0].dims[0];
  const int64_t most = dim.max == -1 ? options_.max_batch : std::min(options_.max_batch, dim.max);
  const std::string& key = batch.calls()[0]->key;
  const auto stays = [&](const std::shared_ptr<Call>& call) {
    if (call->key != key || batch.rows() + call->rows > most) return true;
    if (!options_.latency.pays(batch.rows(), call->rows)) return true;
    take_call(batch, call);
    return false;
  };
  std::deque<std::shared_ptr<Call>> left;
  for (const auto& call : queue_) {
    if (stays(call)) left.push_back(call);
  }
  queue_.swap(left);
}

void Scheduler::take_call(Batch& batch, const std::shared_ptr<Call>& call) {
  call->state = Call::State::kTaken;
  batch.add(call);
}

void Scheduler::run(Worker& worker, Batch& batch) {
  const Clock::time_point begun = Clock::now();
  aot::Result<Outputs> result = run_once(worker, batch);
  const bool alone = batch.calls().size() == 1;
  const aot_code code = result.ok() ? AOT_OK : result.error().code();
  if (alone || code == AOT_OK || code == AOT_CANCELLED || code == AOT_DEADLINE_EXCEEDED) {
    answer(batch, std::move(result), seconds_between(begun, Clock::now()), begun);
    return;
  }
  // One request of the batch is at fault: the others shall not know.
  for (const auto& call : batch.calls()) {
    Batch one(worker.cancellation.get());
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      worker.cancellation.reset();
      worker.batch = &one;
      one.add(call);
      if (call->ended) one.leave();
    }
    aot::Result<Outputs> own = run_once(worker, one);
    answer(one, std::move(own), seconds_between(begun, Clock::now()), begun);
  }
}

// With a `limit` the run ends then at the latest, with the deadline's error.
aot::Result<Outputs> Scheduler::run_once(Worker& worker, Batch& batch, Clock::time_point limit) {
  aot::RunOptions options;
  options.host_outputs = true;
  options.cancellation = worker.cancellation.get();
  const Clock::time_point deadline = std::min(batch.deadline(), limit);
  if (deadline != kNever) {
    options.timeout_ns = std::chrono::nanoseconds(deadline - Clock::now()).count();
    if (options.timeout_ns <= 0) return deadline_error(*contract_);
  }
  auto result = worker.session.run(batch.join(*contract_, worker.memory), options);
  // Requests know nothing of each other: each begins with the states that the model came with.
  if (contract_->has_state) {
    if (const auto done = worker.session.reset(); !done.ok()) return done.error();
  }
  if (!result.ok()) return result.error();
  return Outputs(std::move(result.value()));
}

void Scheduler::answer(Batch& batch, aot::Result<Outputs> result, double run_s,
                       Clock::time_point begun) {
  std::shared_ptr<const Outputs> outputs;
  if (result.ok()) outputs = std::make_shared<const Outputs>(std::move(result.value()));
  const Clock::time_point now = Clock::now();
  metrics_->run_seconds->Observe(run_s);
  metrics_->batch_rows->Observe(static_cast<double>(batch.rows()));
  const bool joined = batch.calls().size() > 1;
  double bytes = 0;
  for (const auto& call : batch.calls()) bytes += input_bytes(*call);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    recent_.add(run_s, bytes);
  }
  int64_t row = 0;
  for (const auto& call : batch.calls()) {
    Outcome outcome{std::nullopt,
                    outputs,
                    joined ? row : 0,
                    joined ? call->rows : -1,
                    seconds_between(call->arrived, begun),
                    run_s,
                    batch.rows()};
    row += call->rows;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      call->state = Call::State::kDone;
      call->batch = nullptr;
      if (call->ended) {
        outcome.error = call->ended;
      } else if (!result.ok()) {
        outcome.error = result.error();
      } else if (call->deadline < now) {
        outcome.error = deadline_error(*contract_);
      }
    }
    if (outcome.error) outcome.outputs = nullptr;
    end(call, std::move(outcome));
  }
}

void Scheduler::end(const std::shared_ptr<Call>& call, Outcome outcome) {
  metrics_->count(outcome.error ? outcome.error->code() : AOT_OK);
  metrics_->request_seconds->Observe(seconds_between(call->arrived, Clock::now()));
  metrics_->queue_seconds->Observe(outcome.queue_s);
  // Moved out: it may hold what holds the call.
  const std::function<void(Outcome)> done = std::move(call->done);
  call->done = nullptr;
  done(std::move(outcome));
}

}  // namespace serve
