#include "scheduler.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

namespace serve {
namespace {

constexpr std::chrono::seconds kMemoryPeriod{1};  // between looks at what sessions hold

aot::Error deadline_error(const Contract& contract) {
  return aot::Error(AOT_DEADLINE_EXCEEDED, "model '" + contract.model +
                                               "': the request's time was over before its answer");
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
      metrics_(metrics) {
  for (aot::Session& session : sessions) {
    workers_.push_back(std::make_unique<Worker>(
        Worker{std::move(session), aot::Cancellation::create().value(), {}, nullptr, {}}));
  }
  for (auto& worker : workers_) {
    worker->thread = std::thread([this, &worker = *worker] { work(worker); });
  }
  timekeeper_ = std::thread([this] { keep_time(); });
}

bool Scheduler::submit(const std::shared_ptr<Call>& call) {
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
  if (options_.timeout.count() != 0) {
    call->deadline = std::min(call->deadline, call->arrived + options_.timeout);
  }
  const double gap = last_arrival_ == Clock::time_point::min()
                         ? 1
                         : std::min(1.0, seconds_between(last_arrival_, call->arrived));
  interval_s_ = 0.8 * interval_s_ + 0.2 * gap;
  last_arrival_ = call->arrived;
  call->state = Call::State::kQueued;
  queue_.push_back(call);
  metrics_->queue_length->Set(static_cast<double>(queue_.size()));
  const bool sooner = call->deadline < next_expiry_;
  const bool all = gathering_;
  lock.unlock();
  if (sooner) timed_.notify_one();
  all ? arrived_.notify_all() : arrived_.notify_one();
  return true;
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
  }
  arrived_.notify_all();
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
  Clock::time_point looked = Clock::time_point::min();
  while (true) {
    Batch batch(worker.cancellation.get());
    {
      std::unique_lock<std::mutex> lock(mutex_);
      worker.cancellation.reset();
      worker.batch = &batch;
      if (!take(lock, batch)) {
        worker.batch = nullptr;
        break;
      }
    }
    run(worker, batch);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      worker.batch = nullptr;
    }
    const Clock::time_point now = Clock::now();
    if (looked != Clock::time_point::min() && now - looked < kMemoryPeriod) continue;
    looked = now;
    if (const auto memory = worker.session.memory(); memory.ok()) {
      const aot_memory_info& held = memory.value();
      metrics_->memory_bytes->Set(static_cast<double>(held.plan_bytes + held.state_bytes +
                                                      held.workspace_bytes + held.shared_bytes +
                                                      held.output_bytes));
    }
  }
  timed_.notify_all();  // the queue may have become empty for good
}

bool Scheduler::take(std::unique_lock<std::mutex>& lock, Batch& batch) {
  ++idle_;
  arrived_.wait(lock, [this] { return queue_.empty() ? closed_ : !gathering_; });
  --idle_;
  if (queue_.empty()) return false;
  const std::shared_ptr<Call> first = queue_.front();
  queue_.pop_front();
  take_call(batch, first);
  if (batching_ && !first->key.empty()) {
    take_alike(batch);
    const Clock::time_point until = std::min(first->arrived + options_.delay, first->deadline);
    while (worth_waiting(batch, until)) {
      gathering_ = true;
      arrived_.wait_until(lock, until);
      take_alike(batch);
    }
    if (gathering_) {
      gathering_ = false;
      if (!queue_.empty() || closed_) arrived_.notify_all();
    }
  }
  metrics_->queue_length->Set(static_cast<double>(queue_.size()));
  return true;
}

// Nobody waits while another kind of request stands in the queue, nor for one that is not expected:
// the next comes after about as long as the last ones did.
bool Scheduler::worth_waiting(const Batch& batch, Clock::time_point until) const {
  if (closed_ || !queue_.empty() || batch.rows() >= options_.max_batch) return false;
  const double left = seconds_between(Clock::now(), until);
  if (left <= 0 || interval_s_ >= left) return false;
  return options_.latency.pays(batch.rows(), batch.calls()[0]->rows);
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

aot::Result<Outputs> Scheduler::run_once(Worker& worker, Batch& batch) {
  aot::RunOptions options;
  options.host_outputs = true;
  options.cancellation = worker.cancellation.get();
  const Clock::time_point deadline = batch.deadline();
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
