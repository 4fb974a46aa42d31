// What control steps need of a session on a GPU.
#include <algorithm>
#include <utility>

#include "cuda/cuda_session.h"
#include "error.h"

namespace aot_rt::cuda {

void CudaSession::run_flow(CUstream stream, bool to_host) {
  stream_ = stream;
  to_host_ = to_host;
  turns_.clear();
  FlowRunner(plan(), program_, this, trace_.get()).run();
}

void CudaSession::bind_flow(std::vector<int64_t> dims) {
  bound_ = &bind(std::move(dims));
  bind_weights(*bound_);
  prepare_memory(*bound_);
  for (size_t i = 0; i < addresses_.size(); ++i) bound_->set_input(i, addresses_[i]);
  place_outputs(*bound_, stream_, to_host_);
  for (const auto& [step, turn] : turns_) bound_->set_turn(step, turn);
}

void CudaSession::launch_steps(int32_t begin, int32_t end) {
  enqueue_segment(*bound_, &bound_->segment(begin, end), stream_);
}

// The operator enqueues its work behind what was launched, in the run's stream: nobody waits.
void CudaSession::call_operator(int32_t step) {
  const Step& call = program_.steps[static_cast<size_t>(step)];
  BoundLaunches& bound = *bound_;
  const bool watched = options().synchronous || observer_ != nullptr;
  const bool timed = options().profile && !watched;
  if (timed) mark(0, stream_);
  {
    const Visit visit(*device_);
    bound.call_of(call, device()).run(operator_of(call), stream_, [&bound](int32_t buffer) {
      return bound.address(buffer);
    });
  }
  if (timed) {
    mark(1, stream_);
    driver_.stream_synchronize(stream_);
    count(step, 0);
  }
  if (!watched) return;
  wait_for_step(step, stream_);
  check_faults();
  if (observer_ != nullptr) observe(bound, step, stream_);
}

void CudaSession::read_buffer(int32_t buffer, void* to, size_t bytes) {
  const auto from = reinterpret_cast<CUdeviceptr>(bound_->address(buffer));
  driver_.memcpy_dtoh_async(to, from, bytes, stream_);
  driver_.stream_synchronize(stream_);
  check_faults();
}

void CudaSession::copy_buffer(int32_t from, int32_t to, size_t bytes) {
  const auto source = reinterpret_cast<CUdeviceptr>(bound_->address(from));
  const auto target = reinterpret_cast<CUdeviceptr>(bound_->address(to));
  if (source != target) driver_.memcpy_dtod_async(target, source, bytes, stream_);
}

void CudaSession::begin_turn(int32_t step, int64_t turn) {
  bound_->set_turn(step, turn);
  const auto same = [step](const auto& entry) { return entry.first == step; };
  turns_.erase(std::remove_if(turns_.begin(), turns_.end(), same), turns_.end());
  turns_.emplace_back(step, turn);
}

}  // namespace aot_rt::cuda
