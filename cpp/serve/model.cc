#include "model.h"

#include <thread>

#include "batch.h"
#include "probe.h"

namespace serve {
namespace {

// The package; an error says which file it is about.
aot::Package open(const std::string& path, const aot::PackageOptions& options) {
  aot::Result<aot::Package> package = aot::Package::open(path, options);
  if (package.ok()) return std::move(package.value());
  const aot::Error& error = package.error();
  const std::string what = error.what();
  const bool named = what.find(path) != std::string::npos;
  throw aot::Error(error.code(), named ? what : path + ": " + what, error.origin());
}

}  // namespace

std::shared_ptr<Model> Model::load(const std::string& name, const std::string& version,
                                   const std::string& path, const Config& config,
                                   const aot::PackageOptions& options, Metrics& metrics) {
  aot::Package package = open(path, options);
  auto contract = std::make_shared<const Contract>(read_contract(package, name, version));
  Config own = config;
  resolve_threads(own, static_cast<int32_t>(std::thread::hardware_concurrency()));
  if (own.max_batch > 1 && !can_batch(*contract)) {
    throw aot::Error(
        AOT_INVALID_ARGUMENT,
        "model '" + name +
            "': \"max_batch\" is for models whose inputs and outputs all begin with one "
            "free size, and which have no state; set it to 1");
  }
  aot::SessionOptions wanted;
  wanted.device = own.device;
  wanted.num_threads = own.threads;
  wanted.host_outputs = true;
  wanted.limits = own.limits;
  std::vector<aot::Session> sessions;
  for (int32_t i = 0; i < own.sessions; ++i) {
    sessions.push_back(aot::Session::create(package, wanted).value());
    warm_up(package, *contract, sessions.back());
  }
  std::shared_ptr<Model> model(new Model(std::move(package), contract, own));
  ScheduleOptions schedule;
  schedule.max_queue = static_cast<size_t>(own.max_queue);
  schedule.max_batch = own.max_batch;
  schedule.delay = std::chrono::microseconds(own.max_delay_us);
  schedule.timeout = std::chrono::milliseconds(own.timeout_ms);
  schedule.cpus = own.cpus;
  if (own.max_batch > 1) {
    model->latency_ = probe_batches(model->package_, *contract, sessions[0], own.max_batch);
    schedule.latency = model->latency_;
  }
  model->scheduler_ = std::make_unique<Scheduler>(contract, std::move(sessions), schedule,
                                                  metrics.model(name, version));
  return model;
}

}  // namespace serve
