// A version of a model that is being served.
#ifndef AOT_SERVE_MODEL_H_
#define AOT_SERVE_MODEL_H_

#include <memory>
#include <string>

#include "aot/aot.hpp"
#include "config.h"
#include "contract.h"
#include "latency.h"
#include "metrics.h"
#include "scheduler.h"

namespace serve {

class Model {
 public:
  // Opens the package, makes its sessions and measures it. Throws aot::Error.
  static std::shared_ptr<Model> load(const std::string& name, const std::string& version,
                                     const std::string& path, const Config& config,
                                     const aot::PackageOptions& options, Metrics& metrics);
  ~Model() { retire(); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::shared_ptr<const Contract>& contract() const { return contract_; }
  Scheduler& scheduler() { return *scheduler_; }
  const Config& config() const { return config_; }
  const Latency& latency() const { return latency_; }
  // Ends what the model has taken, and takes no more. Not from a thread of the model.
  void retire() {
    if (scheduler_ != nullptr) scheduler_->finish();
  }

 private:
  Model(aot::Package package, std::shared_ptr<const Contract> contract, Config config)
      : package_(std::move(package)), contract_(std::move(contract)), config_(std::move(config)) {}

  aot::Package package_;
  std::shared_ptr<const Contract> contract_;
  Config config_;
  Latency latency_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace serve

#endif  // AOT_SERVE_MODEL_H_
