// The runtime for C++17 programs: move-only owners over the C interface. Header-only.
//
//   aot::Package package = aot::Package::open("model.pkg").value();
//   aot::Session session = aot::Session::create(package).value();
//   std::vector<float> x(8 * 64);
//   auto outputs = session.run({aot::Tensor::borrow(x.data(), {8, 64})}).value();
//   const float* y = outputs[0].data<float>();
//
// Every fallible call returns a Result: test it, or call value(), which throws the Error. Nothing
// else here throws, but std::bad_alloc.
#ifndef AOT_AOT_HPP_
#define AOT_AOT_HPP_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aot/abi.h"
#include "aot/operator.hpp"
#include "aot/result.hpp"
#include "aot/tensor.hpp"

namespace aot {

// Gives a custom operator its code for a kind of device ("cpu", "cuda") in this process; see
// aot_register_operator_for. `function` may throw: what() becomes the run's error. It is called by
// several threads at once when several sessions run.
inline Result<Done> register_operator(const std::string& name,
                                      std::function<void(const OperatorCall&)> function,
                                      const std::string& device = "cpu") {
  using Function = std::function<void(const OperatorCall&)>;
  auto owned = std::make_unique<Function>(std::move(function));
  const auto call = [](const aot_operator_call* given, void* user) {
    return run_operator(given, *static_cast<Function*>(user));
  };
  const auto release = [](void* user) { delete static_cast<Function*>(user); };
  Result<Done> result =
      done(aot_register_operator_for(device.c_str(), name.c_str(), call, owned.get(), release));
  if (result.ok()) owned.release();
  return result;
}

// Takes a custom operator's code for a kind of device away; sessions that exist keep it.
inline Result<Done> unregister_operator(const std::string& name,
                                        const std::string& device = "cpu") {
  return done(aot_register_operator_for(device.c_str(), name.c_str(), nullptr, nullptr, nullptr));
}

// Inputs or outputs by the names that the package gives them.
using NamedTensors = std::map<std::string, Tensor, std::less<>>;

// How much of a package is checked; see aot_verify. `true` stands for all of it.
class Verify {
 public:
  Verify(aot_verify how) : how_(how) {}                                   // NOLINT: implicit
  Verify(bool all) : how_(all ? AOT_VERIFY_FULL : AOT_VERIFY_DEFAULT) {}  // NOLINT: implicit
  aot_verify value() const { return how_; }

 private:
  aot_verify how_;
};

// What a caller allows of a package; see aot_policy.
struct Policy {
  std::vector<std::string> keys = {};  // hexadecimal or PEM
  size_t signatures = 0;               // how many of them must have signed; 0: one
  bool trust_weights = false;
  bool operator_libraries = true;
  bool only_listed_code = false;  // `code` lists all that is allowed
  std::vector<std::string> code = {};
  bool require_proved = false;
  aot_limits limits = {};  // zeros: none
};

// How to open a package. Copyable.
struct PackageOptions {
  Verify verify = false;
  aot_log_fn log = nullptr;
  void* log_context = nullptr;
  std::string weights = {};  // the file of the weights; "": in the package, or beside it
  Policy policy = {};
  bool copy = false;  // files are read into memory of this process; see aot_package_options
};

// PackageOptions as the C interface takes them, while both are in scope.
class OpenOptions {
 public:
  explicit OpenOptions(const PackageOptions& options)
      : keys_(texts(options.policy.keys)), code_(texts(options.policy.code)) {
    const Policy& wanted = options.policy;
    policy_.struct_size = sizeof(policy_);
    policy_.keys = keys_.data();
    policy_.key_count = wanted.keys.size();
    policy_.signatures = wanted.signatures;
    policy_.trust_weights = wanted.trust_weights ? 1 : 0;
    policy_.no_operator_libraries = wanted.operator_libraries ? 0 : 1;
    policy_.code = wanted.only_listed_code ? code_.data() : nullptr;
    policy_.code_count = wanted.only_listed_code ? wanted.code.size() : 0;
    policy_.require_proved = wanted.require_proved ? 1 : 0;
    limits_ = wanted.limits;
    limits_.struct_size = sizeof(limits_);
    policy_.limits = &limits_;
    raw_.struct_size = sizeof(raw_);
    raw_.verify = options.verify.value();
    raw_.log = options.log;
    raw_.log_context = options.log_context;
    raw_.weights = options.weights.empty() ? nullptr : options.weights.c_str();
    raw_.policy = &policy_;
    raw_.copy = options.copy ? 1 : 0;
  }
  OpenOptions(const OpenOptions&) = delete;
  OpenOptions& operator=(const OpenOptions&) = delete;

  const aot_package_options& raw() const { return raw_; }

 private:
  static std::vector<const char*> texts(const std::vector<std::string>& list) {
    std::vector<const char*> pointers;
    for (const std::string& text : list) pointers.push_back(text.c_str());
    pointers.push_back(nullptr);  // so that an empty list is one too
    return pointers;
  }

  std::vector<const char*> keys_;
  std::vector<const char*> code_;
  aot_limits limits_{};
  aot_policy policy_{};
  aot_package_options raw_{};
};

// A weight's new value or what is added to it; see aot_weight_update. Tensors are borrowed.
struct WeightUpdate {
  std::string name;
  const DLTensor* value = nullptr;
  bool add = false;
  const DLTensor* up = nullptr;
  const DLTensor* down = nullptr;
  double scale = 1;
};

// How weights are replaced; see aot_replace_options.
struct ReplaceOptions {
  bool partial = false;
  bool restart = false;
  bool ignore_unknown = false;
};

// An open package. Move-only; safe to share between threads by reference. Sessions keep what they
// need of it alive, so it may be destroyed before them.
class Package {
 public:
  static Result<Package> open(const std::string& path, const PackageOptions& options = {}) {
    const OpenOptions given(options);
    aot_package* package = nullptr;
    if (aot_status* status = aot_package_open(path.c_str(), &given.raw(), &package)) {
      return Error::adopt(status);
    }
    return Package(package);
  }

  // The same from memory. It is borrowed, not copied: it must be aligned to 64 bytes, and stay
  // unchanged and alive until this package and all sessions made of it are gone.
  static Result<Package> open_memory(const void* data, size_t size,
                                     const PackageOptions& options = {}) {
    const OpenOptions given(options);
    aot_package* package = nullptr;
    if (aot_status* status = aot_package_open_memory(data, size, &given.raw(), &package)) {
      return Error::adopt(status);
    }
    return Package(package);
  }

  size_t input_count() const { return aot_package_input_count(get()); }
  size_t output_count() const { return aot_package_output_count(get()); }
  const aot_tensor_info& input(size_t index) const { return *aot_package_input(get(), index); }
  const aot_tensor_info& output(size_t index) const { return *aot_package_output(get(), index); }
  size_t state_count() const { return aot_package_state_count(get()); }
  const aot_tensor_info& state(size_t index) const { return *aot_package_state(get(), index); }

  // Positions by name; the error says which names there are.
  Result<size_t> find_input(const std::string& name) const {
    return find(aot_package_find_input, name);
  }
  Result<size_t> find_output(const std::string& name) const {
    return find(aot_package_find_output, name);
  }
  Result<size_t> find_state(const std::string& name) const {
    return find(aot_package_find_state, name);
  }

  // The plan's JSON text.
  std::string_view plan() const {
    size_t size = 0;
    const char* text = aot_package_plan(get(), &size);
    return {text, size};
  }

  size_t entry_count() const { return aot_package_entry_count(get()); }
  const aot_entry_info& entry(size_t index) const { return *aot_package_entry(get(), index); }
  // The entry of that name, or nullptr.
  const aot_entry_info* find_entry(const char* name) const {
    return aot_package_find_entry(get(), name);
  }
  // The checked bytes of a file that the package carries, alive as long as the package.
  Result<std::string_view> read_file(const std::string& name) const {
    const aot_entry_info* file = nullptr;
    if (aot_status* status = aot_package_read_file(get(), name.c_str(), &file)) {
      return Error::adopt(status);
    }
    return std::string_view(static_cast<const char*>(file->data), file->size);
  }

  // New weights for all sessions; see aot_package_replace_weights.
  Result<Done> replace_weights(const std::vector<WeightUpdate>& updates,
                               const ReplaceOptions& options = {}) {
    std::vector<aot_weight_update> raw;
    std::vector<const aot_weight_update*> pointers;
    raw.reserve(updates.size());
    for (const WeightUpdate& update : updates) {
      raw.push_back({sizeof(aot_weight_update), update.name.c_str(), update.value,
                     update.add ? 1 : 0, update.up, update.down, update.scale});
      pointers.push_back(&raw.back());
    }
    const aot_replace_options given = convert(options);
    return done(aot_package_replace_weights(get(), pointers.data(), pointers.size(), &given));
  }

  // The same from a safetensors file.
  Result<Done> load_weights(const std::string& path, const ReplaceOptions& options = {}) {
    const aot_replace_options given = convert(options);
    return done(aot_package_load_weights(get(), path.c_str(), &given));
  }

  aot_package* get() const { return package_.get(); }

  // Names of the loaded CPU kernels for `perf`; see aot_package_write_perf_map.
  Result<Done> write_perf_map() { return done(aot_package_write_perf_map(get())); }

 private:
  using Find = aot_status* (*)(const aot_package*, const char*, size_t*);
  Result<size_t> find(Find function, const std::string& name) const {
    size_t index = 0;
    if (aot_status* status = function(get(), name.c_str(), &index)) return Error::adopt(status);
    return index;
  }

  static aot_replace_options convert(const ReplaceOptions& options) {
    return {sizeof(aot_replace_options), options.partial ? 1 : 0, options.restart ? 1 : 0,
            options.ignore_unknown ? 1 : 0};
  }

  struct Free {
    void operator()(aot_package* package) const { aot_package_free(package); }
  };
  explicit Package(aot_package* package) : package_(package) {}
  std::unique_ptr<aot_package, Free> package_;
};

// How to make a session. Pointers are borrowed for the call of create().
struct SessionOptions {
  std::string device;       // "cpu", "cuda", "cuda:1"; empty: the CPU
  std::string isa;          // "x86-64-v3"; empty: the best
  int32_t num_threads = 0;  // 0: the physical cores that this process may use
  const aot_executor* executor = nullptr;
  const aot_allocator* allocator = nullptr;
  const aot_allocator* device_allocator = nullptr;  // of a GPU's memory
  bool profile = false;
  bool host_outputs = false;   // on a GPU: outputs in host memory
  bool graphs = true;          // on a GPU: replay launches as a graph
  bool synchronous = false;    // on a GPU: wait after every step, so that an error names its kernel
  bool own_workspace = false;  // temporaries are not shared with other sessions
  aot_limits limits = {};      // zeros: the defaults; struct_size is set by create()
};

// Ends runs from elsewhere; see aot_cancellation. Move-only; must outlive the runs that have it.
class Cancellation {
 public:
  static Result<Cancellation> create() {
    aot_cancellation* made = nullptr;
    if (aot_status* status = aot_cancellation_create(&made)) return Error::adopt(status);
    return Cancellation(made);
  }
  void cancel() { aot_cancellation_cancel(get()); }  // any thread
  void reset() { aot_cancellation_reset(get()); }
  aot_cancellation* get() const { return cancellation_.get(); }

 private:
  struct Free {
    void operator()(aot_cancellation* cancellation) const { aot_cancellation_free(cancellation); }
  };
  explicit Cancellation(aot_cancellation* made) : cancellation_(made) {}
  std::unique_ptr<aot_cancellation, Free> cancellation_;
};

// How one run is done; see aot_run_options.
struct RunOptions {
  void* stream = nullptr;
  bool host_outputs = false;
  int64_t timeout_ns = 0;
  aot_cancellation* cancellation = nullptr;
  const DLTensor* const* outputs = nullptr;  // the caller's memory for each, or nullptr
  aot_observer_fn observer = nullptr;
  void* observer_context = nullptr;
};

// What a trace keeps; see aot_trace_options.
struct TraceOptions {
  uint64_t capacity = 0;  // events; 0: 65536
  bool nvtx = false;      // ranges for NVIDIA's tools
  bool events = true;     // false: ranges alone
};

// What a session's runs did; see aot_trace_event. Move-only; lives on without its session.
class Trace {
 public:
  // Takes over a trace of the C interface.
  static Trace adopt(aot_trace* trace) { return Trace(trace); }

  size_t size() const { return aot_trace_count(trace_.get()); }
  const aot_trace_event& operator[](size_t index) const {
    return *aot_trace_event_at(trace_.get(), index);
  }
  uint64_t dropped() const { return aot_trace_dropped(trace_.get()); }

 private:
  struct Free {
    void operator()(aot_trace* trace) const { aot_trace_free(trace); }
  };
  explicit Trace(aot_trace* trace) : trace_(trace) {}
  std::unique_ptr<aot_trace, Free> trace_;
};

// Runs a package. Move-only. Several sessions run at the same time; one session serialises.
class Session {
 public:
  static Result<Session> create(const Package& package, const SessionOptions& options = {}) {
    aot_session_options raw{};
    raw.struct_size = sizeof(raw);
    raw.isa = options.isa.empty() ? nullptr : options.isa.c_str();
    raw.num_threads = options.num_threads;
    raw.executor = options.executor;
    raw.allocator = options.allocator;
    raw.device_allocator = options.device_allocator;
    raw.profile = options.profile ? 1 : 0;
    raw.host_outputs = options.host_outputs ? 1 : 0;
    raw.no_graphs = options.graphs ? 0 : 1;
    raw.synchronous = options.synchronous ? 1 : 0;
    raw.own_workspace = options.own_workspace ? 1 : 0;
    aot_limits limits = options.limits;
    limits.struct_size = sizeof(limits);
    raw.limits = &limits;
    const char* device = options.device.empty() ? nullptr : options.device.c_str();
    aot_session* session = nullptr;
    if (aot_status* status = aot_session_create(package.get(), device, &raw, &session)) {
      return Error::adopt(status);
    }
    return Session(session, Names::of(package));
  }

  // Runs on inputs in the package's order.
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs,
                                  const RunOptions& options = {}) {
    std::vector<const DLTensor*> views;
    views.reserve(inputs.size());
    for (const Tensor& tensor : inputs) views.push_back(&tensor.view());
    return run(views.data(), views.size(), options);
  }

  // The same for a braced list: session.run({Tensor::borrow(…), …}).
  Result<std::vector<Tensor>> run(std::initializer_list<Tensor> inputs,
                                  const RunOptions& options = {}) {
    std::vector<const DLTensor*> views;
    views.reserve(inputs.size());
    for (const Tensor& tensor : inputs) views.push_back(&tensor.view());
    return run(views.data(), views.size(), options);
  }

  // The same for tensors of another library.
  Result<std::vector<Tensor>> run(const DLTensor* const* inputs, size_t count,
                                  const RunOptions& options = {}) {
    std::vector<DLManagedTensorVersioned*> raw(names_->outputs.size());
    std::vector<Tensor> outputs;
    outputs.reserve(raw.size());  // now: nothing may fail between the run and its outputs' owners
    aot_run_options given{};
    given.struct_size = sizeof(given);
    given.stream = options.stream;
    given.host_outputs = options.host_outputs ? 1 : 0;
    given.timeout_ns = options.timeout_ns;
    given.cancellation = options.cancellation;
    given.outputs = options.outputs;
    given.observer = options.observer;
    given.observer_context = options.observer_context;
    if (aot_status* status =
            aot_session_run_with(session_.get(), inputs, count, raw.data(), raw.size(), &given)) {
      return Error::adopt(status);
    }
    for (size_t i = 0; i < raw.size(); ++i) {
      outputs.push_back(raw[i] != nullptr ? Tensor::adopt(raw[i])
                                          : Tensor::view_of(*options.outputs[i]));
    }
    return outputs;
  }

  // Runs on inputs by name, and gives the outputs by name. The error says which input is missing or
  // unknown. NamedTensors inputs; inputs.emplace("x", Tensor::borrow(…));
  Result<NamedTensors> run_named(const NamedTensors& inputs, const RunOptions& options = {}) {
    std::vector<const DLTensor*> views;
    for (const std::string& name : names_->inputs) {
      const auto given = inputs.find(name);
      if (given == inputs.end()) {
        return Error(AOT_INVALID_ARGUMENT, "input '" + name + "' is missing");
      }
      views.push_back(&given->second.view());
    }
    for (const auto& [name, tensor] : inputs) {
      if (!names_->has_input(name)) {
        return Error(AOT_INVALID_ARGUMENT, "the model has no input '" + name + "'");
      }
    }
    Result<std::vector<Tensor>> outputs = run(views.data(), views.size(), options);
    if (!outputs.ok()) return outputs.error();
    NamedTensors named;
    for (size_t i = 0; i < names_->outputs.size(); ++i) {
      named.emplace(names_->outputs[i], std::move(outputs.value()[i]));
    }
    return named;
  }

  // The sizes of an output for inputs of these sizes, whose data is not looked at; -1: only a run
  // knows.
  Result<std::vector<int64_t>> output_sizes(const DLTensor* const* inputs, size_t count,
                                            size_t index, size_t rank) const {
    std::vector<int64_t> sizes(rank);
    if (aot_status* status = aot_session_output_sizes(session_.get(), inputs, count, index,
                                                      sizes.data(), sizes.size())) {
      return Error::adopt(status);
    }
    return sizes;
  }
  // Makes what runs with inputs of these sizes need.
  Result<Done> prewarm(const DLTensor* const* inputs, size_t count) {
    return done(aot_session_prewarm(session_.get(), inputs, count));
  }
  // What the session holds; see aot_memory_info.
  Result<aot_memory_info> memory() const {
    aot_memory_info info{};
    info.struct_size = sizeof(info);
    if (aot_status* status = aot_session_memory(session_.get(), &info)) {
      return Error::adopt(status);
    }
    return info;
  }
  // Frees what it can do without until the next run.
  Result<Done> trim() { return done(aot_session_trim(session_.get())); }

  // Waits for the last run that was enqueued in a caller's stream; the error that it found.
  Result<Done> synchronize() { return done(aot_session_synchronize(session_.get())); }

  // States; see aot_session_get_state. `data` holds `size` bytes.
  Result<Done> get_state(size_t index, void* data, size_t size) const {
    return done(aot_session_get_state(session_.get(), index, data, size));
  }
  Result<Done> set_state(size_t index, const void* data, size_t size) {
    return done(aot_session_set_state(session_.get(), index, data, size));
  }
  // Gives every state its first value again.
  Result<Done> reset() { return done(aot_session_reset(session_.get())); }
  // A session of the same options with the states that this one has now.
  Result<Session> clone() const {
    aot_session* session = nullptr;
    if (aot_status* status = aot_session_clone(session_.get(), &session)) {
      return Error::adopt(status);
    }
    return Session(session, names_);
  }

  DLDevice device() const { return aot_session_device(session_.get()); }
  // The stream of runs that are given none; nullptr on the CPU.
  void* stream() const { return aot_session_stream(session_.get()); }

  // The instruction set of the kernels in use ("sm_90" on a GPU).
  const char* isa() const { return aot_session_isa(session_.get()); }
  int32_t num_threads() const { return aot_session_num_threads(session_.get()); }

  // Time per step since creation or reset; strings live as long as the session.
  Result<std::vector<aot_step_profile>> profile() const {
    size_t count = 0;
    if (aot_status* status = aot_session_profile(session_.get(), nullptr, 0, &count)) {
      return Error::adopt(status);
    }
    std::vector<aot_step_profile> steps(count);
    if (aot_status* status =
            aot_session_profile(session_.get(), steps.data(), steps.size(), &count)) {
      return Error::adopt(status);
    }
    return steps;
  }

  Result<Done> reset_profile() { return done(aot_session_profile_reset(session_.get())); }

  // A timeline of the runs from here to end_trace(); see aot_session_trace_begin.
  Result<Done> begin_trace(const TraceOptions& options = {}) {
    const aot_trace_options given{sizeof(given), options.capacity, options.nvtx ? 1 : 0,
                                  options.events ? 0 : 1};
    return done(aot_session_trace_begin(session_.get(), &given));
  }
  Result<Trace> end_trace() {
    aot_trace* trace = nullptr;
    if (aot_status* status = aot_session_trace_end(session_.get(), &trace)) {
      return Error::adopt(status);
    }
    return Trace::adopt(trace);
  }

  // See aot_session_set_observer; nullptr removes it.
  Result<Done> set_observer(aot_observer_fn observer, void* context) {
    return done(aot_session_set_observer(session_.get(), observer, context));
  }

  aot_session* get() const { return session_.get(); }

 private:
  struct Free {
    void operator()(aot_session* session) const { aot_session_free(session); }
  };
  // The package's, which may be gone before the session.
  struct Names {
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;

    static std::shared_ptr<const Names> of(const Package& package) {
      auto names = std::make_shared<Names>();
      for (size_t i = 0; i < package.input_count(); ++i) {
        names->inputs.emplace_back(package.input(i).name);
      }
      for (size_t i = 0; i < package.output_count(); ++i) {
        names->outputs.emplace_back(package.output(i).name);
      }
      return names;
    }
    bool has_input(const std::string& name) const {
      return std::find(inputs.begin(), inputs.end(), name) != inputs.end();
    }
  };
  Session(aot_session* session, std::shared_ptr<const Names> names)
      : session_(session), names_(std::move(names)) {}

  std::unique_ptr<aot_session, Free> session_;
  std::shared_ptr<const Names> names_;
};

}  // namespace aot

#endif  // AOT_AOT_HPP_
