// What the server does, whichever protocol asks.
#ifndef AOT_SERVE_SERVICE_H_
#define AOT_SERVE_SERVICE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "call.h"
#include "contract.h"
#include "log.h"
#include "metrics.h"
#include "repository.h"
#include "trace_context.h"

namespace serve {

struct ServiceOptions {
  bool allow_control = false;  // clients may load and unload models
  bool log_requests = false;   // also those that succeed
};

// A call on its way, for whoever may cancel it.
class Ticket {
 public:
  Ticket() = default;
  Ticket(std::shared_ptr<Model> model, std::shared_ptr<Call> call)
      : model_(std::move(model)), call_(std::move(call)) {}
  void cancel(const aot::Error& why) const {
    if (call_ != nullptr) model_->scheduler().cancel(call_, why);
  }

 private:
  std::shared_ptr<Model> model_;
  std::shared_ptr<Call> call_;
};

// What a protocol keeps of a request while it works: the way to stop it. Safe from any thread.
class Pending {
 public:
  // The call; it is cancelled at once if the client has gone already.
  void attach(Ticket ticket);
  void cancel(const aot::Error& why);

 private:
  std::mutex mutex_;
  Ticket ticket_;
  std::optional<aot::Error> why_;
};

// Safe to use from any thread.
class Service {
 public:
  using Decode = std::function<InferRequest(const Contract&)>;
  // Called once, from any thread, unless infer() throws.
  using Done = std::function<void(const Contract&, const InferRequest&, Outcome)>;

  Service(ServiceOptions options, Repository& repository, Metrics& metrics, Log& log)
      : options_(options), repository_(repository), metrics_(metrics), log_(log) {}

  Repository& repository() { return repository_; }
  Metrics& metrics() { return metrics_; }
  Log& log() { return log_; }

  // How a protocol asks for a run.
  struct Asked {
    std::string model;
    std::string version;                  // "": the one that is served
    Clock::time_point deadline = kNever;  // the transport's; the request may have one of its own
    bool here = false;                    // the calling thread may be held for a short run
  };

  // Runs a model; `pending` learns of the call before it can run. Throws aot::Error for what
  // `decode` throws, for a model that is not there, and where its queue is full.
  void infer(const Asked& asked, const Decode& decode, Pending& pending, const Done& done);

  // A line of the log for a call that has ended: failures always, others where requests are logged.
  void log_call(const Contract& contract, const InferRequest& request, const Outcome& outcome,
                const TraceContext& trace, const char* protocol);

  // These wait for requests under way. Throw aot::Error, also where clients may not.
  void load(const std::string& model);
  void unload(const std::string& model);

  bool live() const { return true; }
  // False from the moment that the server is told to end.
  bool ready() const { return !ending_ && repository_.ready(); }
  bool ready(const std::string& model, const std::string& version) const;
  void begin_end() { ending_ = true; }
  bool ending() const { return ending_; }

 private:
  void require_control() const;

  const ServiceOptions options_;
  Repository& repository_;
  Metrics& metrics_;
  Log& log_;
  std::atomic<bool> ending_{false};
};

}  // namespace serve

#endif  // AOT_SERVE_SERVICE_H_
