#include "service.h"

#include <algorithm>

namespace serve {

void Pending::attach(Ticket ticket) {
  std::optional<aot::Error> why;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    why = why_;
    if (!why) ticket_ = std::move(ticket);
  }
  if (why) ticket.cancel(*why);
}

void Pending::cancel(const aot::Error& why) {
  Ticket ticket;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    why_ = why;
    ticket = std::move(ticket_);
    ticket_ = {};
  }
  ticket.cancel(why);
}

void Service::infer(const Asked& asked, const Decode& decode, Pending& pending, const Done& done) {
  while (true) {
    const std::shared_ptr<Model> found = repository_.find(asked.model, asked.version);
    const std::shared_ptr<const Contract> contract = found->contract();
    auto call = std::make_shared<Call>();
    call->request = decode(*contract);
    call->arrived = Clock::now();
    call->deadline = asked.deadline;
    if (call->request.timeout_ns != 0) {
      call->deadline = std::min(asked.deadline,
                                call->arrived + std::chrono::nanoseconds(call->request.timeout_ns));
    }
    // The scheduler moves it out before it calls it: no circle is left.
    call->done = [contract, call, done](Outcome outcome) {
      done(*contract, call->request, std::move(outcome));
    };
    pending.attach(Ticket(found, call));
    // A model that is being replaced takes no more: the next look finds the new one.
    try {
      if (found->scheduler().submit(call, asked.here)) return;
    } catch (const aot::Error&) {
      call->done = nullptr;
      throw;
    }
    call->done = nullptr;
  }
}

void Service::log_call(const Contract& contract, const InferRequest& request,
                       const Outcome& outcome, const TraceContext& trace, const char* protocol) {
  if (!outcome.error && !options_.log_requests) return;
  const LogLevel level = outcome.error ? LogLevel::kWarning : LogLevel::kInfo;
  log_.write(level, "request",
             {{"protocol", protocol},
              {"model", contract.model},
              {"version", contract.version},
              {"id", request.id.substr(0, 100)},
              {"trace_id", trace.trace_id},
              {"span_id", trace.span_id},
              {"parent_id", trace.parent_id},
              {"code", aot_code_name(outcome.error ? outcome.error->code() : AOT_OK)},
              {"message", outcome.error ? outcome.error->what() : ""},
              {"queue_us", static_cast<int64_t>(outcome.queue_s * 1e6)},
              {"run_us", static_cast<int64_t>(outcome.run_s * 1e6)},
              {"batch_rows", outcome.batch_rows}});
}

bool Service::ready(const std::string& model, const std::string& version) const {
  try {
    return repository_.find(model, version) != nullptr && !ending_;
  } catch (const aot::Error&) {
    return false;  // a model that is not there is not ready
  }
}

void Service::require_control() const {
  if (!options_.allow_control) {
    throw aot::Error(AOT_REFUSED,
                     "models are not loaded and unloaded by requests here; start the server with "
                     "--allow-control");
  }
}

void Service::load(const std::string& model) {
  require_control();
  repository_.load(model);
}

void Service::unload(const std::string& model) {
  require_control();
  repository_.unload(model);
}

}  // namespace serve
