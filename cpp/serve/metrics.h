// What Prometheus reads.
#ifndef AOT_SERVE_METRICS_H_
#define AOT_SERVE_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "aot/abi.h"

namespace serve {

// Of one version of a model; they go on over reloads. All may be used from any thread.
class ModelMetrics {
 public:
  void count(aot_code code);

  prometheus::Histogram* request_seconds = nullptr;
  prometheus::Histogram* queue_seconds = nullptr;
  prometheus::Histogram* run_seconds = nullptr;
  prometheus::Histogram* batch_rows = nullptr;
  prometheus::Gauge* queue_length = nullptr;
  prometheus::Gauge* ready = nullptr;
  prometheus::Gauge* memory_bytes = nullptr;

 private:
  friend class Metrics;
  prometheus::Family<prometheus::Counter>* requests_ = nullptr;
  std::map<std::string, std::string> labels_;
  std::mutex mutex_;
  std::map<aot_code, prometheus::Counter*> by_code_;
};

class Metrics {
 public:
  Metrics();

  // Those of a version, made when they are first asked for; they live as long as this.
  ModelMetrics* model(const std::string& name, const std::string& version);

  // All of it in Prometheus' text format.
  std::string text();

  prometheus::Gauge* connections;
  prometheus::Gauge* body_bytes;  // of requests that are being read and answered
  prometheus::Counter* refused_connections;
  prometheus::Counter* bad_requests;  // which reached no model

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<ModelMetrics>> models_;
  prometheus::Family<prometheus::Counter>* requests_;
  prometheus::Family<prometheus::Histogram>* request_seconds_;
  prometheus::Family<prometheus::Histogram>* queue_seconds_;
  prometheus::Family<prometheus::Histogram>* run_seconds_;
  prometheus::Family<prometheus::Histogram>* batch_rows_;
  prometheus::Family<prometheus::Gauge>* queue_length_;
  prometheus::Family<prometheus::Gauge>* ready_;
  prometheus::Family<prometheus::Gauge>* memory_bytes_;
};

}  // namespace serve

#endif  // AOT_SERVE_METRICS_H_
