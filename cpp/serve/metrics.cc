#include "metrics.h"

#include <prometheus/text_serializer.h>

namespace serve {
namespace {

const prometheus::Histogram::BucketBoundaries kSeconds = {
    25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3,
    50e-3, 0.1,   0.25,   0.5,    1,      2.5,  5,      10,   30};
const prometheus::Histogram::BucketBoundaries kRows = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

template <typename Builder>
auto* family(Builder builder, prometheus::Registry& registry, const char* name, const char* help) {
  return &builder.Name(name).Help(help).Register(registry);
}

}  // namespace

void ModelMetrics::count(aot_code code) {
  const std::lock_guard<std::mutex> lock(mutex_);
  prometheus::Counter*& counter = by_code_[code];
  if (counter == nullptr) {
    std::map<std::string, std::string> labels = labels_;
    labels["code"] = aot_code_name(code);
    counter = &requests_->Add(labels);
  }
  counter->Increment();
}

Metrics::Metrics() : registry_(std::make_shared<prometheus::Registry>()) {
  prometheus::Registry& registry = *registry_;
  using prometheus::BuildCounter;
  using prometheus::BuildGauge;
  using prometheus::BuildHistogram;
  requests_ = family(BuildCounter(), registry, "aot_requests_total",
                     "Answered requests by model, version and code (OK, or why not).");
  request_seconds_ = family(BuildHistogram(), registry, "aot_request_seconds",
                            "From the decoded request to its outputs.");
  queue_seconds_ = family(BuildHistogram(), registry, "aot_queue_seconds",
                          "Waited for a session, and for others to run with.");
  run_seconds_ = family(BuildHistogram(), registry, "aot_run_seconds", "Runs of the model.");
  batch_rows_ = family(BuildHistogram(), registry, "aot_batch_rows", "Rows of a run.");
  queue_length_ = family(BuildGauge(), registry, "aot_queue_length", "Requests that wait.");
  ready_ = family(BuildGauge(), registry, "aot_model_ready", "1 while the version is served.");
  memory_bytes_ = family(BuildGauge(), registry, "aot_model_memory_bytes",
                         "What the sessions hold: plans, states, temporaries, spare outputs.");
  connections =
      &family(BuildGauge(), registry, "aot_connections", "Open HTTP connections.")->Add({});
  body_bytes = &family(BuildGauge(), registry, "aot_body_bytes",
                       "Memory set aside for HTTP requests that are being read and answered.")
                    ->Add({});
  refused_connections = &family(BuildCounter(), registry, "aot_refused_connections_total",
                                "Connections above the limit.")
                             ->Add({});
  bad_requests = &family(BuildCounter(), registry, "aot_bad_requests_total",
                         "Requests that were refused before they reached a model.")
                      ->Add({});
}

ModelMetrics* Metrics::model(const std::string& name, const std::string& version) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<ModelMetrics>& made = models_[{name, version}];
  if (made != nullptr) return made.get();
  const std::map<std::string, std::string> labels = {{"model", name}, {"version", version}};
  made = std::make_unique<ModelMetrics>();
  made->labels_ = labels;
  made->requests_ = requests_;
  made->request_seconds = &request_seconds_->Add(labels, kSeconds);
  made->queue_seconds = &queue_seconds_->Add(labels, kSeconds);
  made->run_seconds = &run_seconds_->Add(labels, kSeconds);
  made->batch_rows = &batch_rows_->Add(labels, kRows);
  made->queue_length = &queue_length_->Add(labels);
  made->ready = &ready_->Add(labels);
  made->memory_bytes = &memory_bytes_->Add(labels);
  return made.get();
}

std::string Metrics::text() { return prometheus::TextSerializer().Serialize(registry_->Collect()); }

}  // namespace serve
