// A program as it was written for release 1.0 of the interface: compiled with that release's
// headers, which stand beside this file, and run with today's library. Do not change it: what it
// does must work for as long as AOT_ABI_VERSION is 1.
#include <cstring>
#include <string>
#include <vector>

#include "aot/aot.hpp"

#ifdef AOT_HAS_GROWTH
#error "these are not the headers of release 1.0"
#endif

namespace {

int failures = 0;

void expect(bool condition, const char* what, std::string* report) {
  if (condition) return;
  ++failures;
  *report += std::string(what) + "; ";
}

void use_cpp(const char* path, std::string* report) {
  const aot::Package package = aot::Package::open(path).value();
  expect(package.input(0).ndim == 2 && package.input(0).dims[1].size == 8, "dims", report);
  expect(std::strcmp(package.input(0).dims[0].label, "batch") == 0, "label", report);
  expect(std::strcmp(package.output(1).name, "total") == 0, "output", report);
  expect(package.find_entry("weights/bias")->size == 32, "entry", report);
  aot::SessionOptions options;
  options.num_threads = 1;
  options.profile = true;
  aot::Session session = aot::Session::create(package, options).value();
  const std::vector<float> x(16, 1.0f);
  for (int i = 0; i < 2; ++i) {
    const auto outputs = session.run({aot::Tensor::borrow(x.data(), {2, 8})}).value();
    expect(outputs[1].data<float>()[1] == 72.0f, "value", report);
  }
  const auto steps = session.profile().value();
  expect(steps.size() == 3, "steps", report);
  expect(steps.size() == 3 && std::strcmp(steps[2].kernel, "row_sum") == 0 && steps[2].calls == 2,
         "profile", report);
  const std::vector<int64_t> wrong(16);
  const auto refused = session.run({aot::Tensor::borrow(wrong.data(), {2, 8})});
  expect(!refused.ok() && refused.error().code() == AOT_INVALID_ARGUMENT, "dtype", report);
}

// Options whose padding was never written, as a C program may leave it.
void use_c(const char* path, std::string* report) {
  aot_package_options opening;
  std::memset(&opening, 0xff, sizeof(opening));
  opening.struct_size = sizeof(opening);
  opening.verify = 1;
  opening.log = nullptr;
  opening.log_context = nullptr;
  opening.weights = nullptr;
  aot_package* package = nullptr;
  expect(aot_package_open(path, &opening, &package) == nullptr, "open", report);
  aot_session_options options;
  std::memset(&options, 0xff, sizeof(options));
  options.struct_size = sizeof(options);
  options.isa = nullptr;
  options.num_threads = 1;
  options.executor = nullptr;
  options.allocator = nullptr;
  options.profile = 0;
  options.host_outputs = 0;
  options.no_graphs = 0;
  options.synchronous = 0;
  aot_session* session = nullptr;
  expect(aot_session_create(package, "cpu", &options, &session) == nullptr, "session", report);
  aot_run_options running;
  std::memset(&running, 0xff, sizeof(running));
  running.struct_size = sizeof(running);
  running.stream = nullptr;
  running.host_outputs = 0;
  const std::vector<float> x(8, 1.0f);
  const aot::Tensor input = aot::Tensor::borrow(x.data(), {1, 8});
  const DLTensor* views[] = {&input.view()};
  DLManagedTensorVersioned* outputs[2] = {};
  expect(aot_session_run_with(session, views, 1, outputs, 2, &running) == nullptr, "run", report);
  for (DLManagedTensorVersioned* output : outputs) {
    if (output != nullptr) output->deleter(output);
  }
  aot_session_free(session);
  aot_package_free(package);
}

}  // namespace

// What went wrong; "" if nothing.
std::string run_program_1_0(const char* path);
std::string run_program_1_0(const char* path) {
  std::string report;
  use_cpp(path, &report);
  use_c(path, &report);
  return report;
}
