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

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "aot/abi.h"
#include "aot/operator.hpp"

namespace aot {

// A failure: what a status says, as a value. See aot_code for the meaning of each code.
class Error : public std::runtime_error {
 public:
  Error(aot_code code, const std::string& message, std::string origin = {})
      : std::runtime_error(message), code_(code), origin_(std::move(origin)) {}

  // Takes over a status that is not NULL.
  static Error adopt(aot_status* status) {
    Error error(aot_status_code(status), aot_status_message(status), aot_status_origin(status));
    aot_status_free(status);
    return error;
  }

  aot_code code() const { return code_; }
  const char* code_name() const { return aot_code_name(code_); }
  // The model's source behind the failing step, or "".
  const std::string& origin() const { return origin_; }

 private:
  aot_code code_;
  std::string origin_;
};

// A T or the Error that there is instead.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}      // NOLINT: implicit, so that functions
  Result(Error error) : content_(std::move(error)) {}  // NOLINT: can return either

  bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The error; only if !ok().
  const Error& error() const { return std::get<1>(content_); }

  // The value; throws the Error if there is none (aborts where exceptions are off).
  T& value() & {
    require();
    return std::get<0>(content_);
  }
  const T& value() const& {
    require();
    return std::get<0>(content_);
  }
  T value() && {
    require();
    return std::move(std::get<0>(content_));
  }

 private:
  void require() const {
    if (ok()) return;
#if defined(__cpp_exceptions)
    throw std::get<1>(content_);
#else
    std::abort();
#endif
  }

  std::variant<T, Error> content_;
};

// Success without a value.
using Done = std::monostate;

// What a function of the C interface that gives nothing but a status returned.
inline Result<Done> done(aot_status* status) {
  if (status != nullptr) return Error::adopt(status);
  return Done{};
}

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

// Element types that C++ has no type for: borrow them as bits.
struct float16 {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};

// DLPack's name of a C++ element type.
template <typename T>
constexpr DLDataType dtype_of() {
  using E = std::remove_cv_t<T>;
  constexpr auto bits = static_cast<uint8_t>(sizeof(E) * 8);
  if constexpr (std::is_same_v<E, bool>) {
    return {kDLBool, 8, 1};
  } else if constexpr (std::is_same_v<E, float16>) {
    return {kDLFloat, 16, 1};
  } else if constexpr (std::is_same_v<E, bfloat16>) {
    return {kDLBfloat, 16, 1};
  } else if constexpr (std::is_floating_point_v<E>) {
    return {kDLFloat, bits, 1};
  } else {
    static_assert(std::is_integral_v<E>, "not an element type");
    return {std::is_signed_v<E> ? uint8_t{kDLInt} : uint8_t{kDLUInt}, bits, 1};
  }
}

// An input that borrows its memory, or an output that owns it. Move-only.
class Tensor {
 public:
  using Shape = std::vector<int64_t>;

  // A C-contiguous input of typed elements; `data` must outlive the tensor.
  template <typename T>
  static Tensor borrow(const T* data, Shape shape) {
    return borrow(data, dtype_of<T>(), std::move(shape), {});
  }

  // An input with any type and strides (in elements; empty: C-contiguous).
  static Tensor borrow(const void* data, DLDataType dtype, Shape shape, Shape strides,
                       DLDevice device = {kDLCPU, 0}) {
    auto layout = std::make_unique<Layout>(Layout{std::move(shape), std::move(strides)});
    DLTensor view{};
    view.data = const_cast<void*>(data);  // written only where the input's info says `changed`
    view.device = device;
    view.ndim = static_cast<int32_t>(layout->shape.size());
    view.dtype = dtype;
    view.shape = layout->shape.data();
    view.strides = layout->strides.empty() ? nullptr : layout->strides.data();
    return Tensor(view, std::move(layout), nullptr);
  }

  // A view of memory that another owns, who keeps its sizes and strides too.
  static Tensor view_of(const DLTensor& view) { return Tensor(view, nullptr, nullptr); }

  // Takes over an output of the C interface.
  static Tensor adopt(DLManagedTensorVersioned* managed) {
    return Tensor(managed->dl_tensor, nullptr, Managed(managed));
  }

  // The view that DLPack consumers read; lives as long as this tensor is not moved from.
  const DLTensor& view() const { return view_; }

  int32_t rank() const { return view_.ndim; }
  int64_t size(int32_t axis) const { return view_.shape[axis]; }
  Shape shape() const { return Shape(view_.shape, view_.shape + view_.ndim); }
  DLDataType dtype() const { return view_.dtype; }

  // The product of the sizes.
  int64_t elements() const {
    int64_t count = 1;
    for (int32_t i = 0; i < view_.ndim; ++i) count *= view_.shape[i];
    return count;
  }

  // The first element. T must be the tensor's type; nullptr if it is not.
  template <typename T>
  const T* data() const {
    constexpr DLDataType expected = dtype_of<T>();
    if (view_.dtype.code != expected.code || view_.dtype.bits != expected.bits) return nullptr;
    return static_cast<const T*>(raw());
  }

  // The first byte of the first element.
  const void* raw() const { return static_cast<const char*>(view_.data) + view_.byte_offset; }

  // Gives an output away, to a consumer that calls its deleter; nullptr for a borrowed tensor.
  DLManagedTensorVersioned* release() { return managed_.release(); }

 private:
  struct Layout {
    Shape shape;
    Shape strides;
  };
  struct Delete {
    void operator()(DLManagedTensorVersioned* managed) const { managed->deleter(managed); }
  };
  using Managed = std::unique_ptr<DLManagedTensorVersioned, Delete>;

  Tensor(const DLTensor& view, std::unique_ptr<Layout> layout, Managed managed)
      : view_(view), layout_(std::move(layout)), managed_(std::move(managed)) {}

  DLTensor view_;
  std::unique_ptr<Layout> layout_;  // of a borrowed tensor
  Managed managed_;                 // of an output
};

// How to open a package. Copyable.
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
};

struct PackageOptions {
  Verify verify = false;
  aot_log_fn log = nullptr;
  void* log_context = nullptr;
  std::string weights = {};  // the file of the weights; "": in the package, or beside it
  Policy policy = {};
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
    const char* weights = options.weights.empty() ? nullptr : options.weights.c_str();
    const auto texts = [](const std::vector<std::string>& list) {
      std::vector<const char*> pointers;
      for (const std::string& text : list) pointers.push_back(text.c_str());
      pointers.push_back(nullptr);  // so that an empty list is one too
      return pointers;
    };
    const Policy& wanted = options.policy;
    const std::vector<const char*> keys = texts(wanted.keys);
    const std::vector<const char*> code = texts(wanted.code);
    aot_policy policy{};
    policy.struct_size = sizeof(policy);
    policy.keys = keys.data();
    policy.key_count = wanted.keys.size();
    policy.signatures = wanted.signatures;
    policy.trust_weights = wanted.trust_weights ? 1 : 0;
    policy.no_operator_libraries = wanted.operator_libraries ? 0 : 1;
    policy.code = wanted.only_listed_code ? code.data() : nullptr;
    policy.code_count = wanted.only_listed_code ? wanted.code.size() : 0;
    policy.require_proved = wanted.require_proved ? 1 : 0;
    const aot_package_options raw{
        sizeof(raw), options.verify.value(), options.log, options.log_context, weights, &policy};
    aot_package* package = nullptr;
    if (aot_status* status = aot_package_open(path.c_str(), &raw, &package)) {
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

 private:
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
  bool profile = false;
  bool host_outputs = false;  // on a GPU: outputs in host memory
  bool graphs = true;         // on a GPU: replay launches as a graph
  bool synchronous = false;   // on a GPU: wait after every step, so that an error names its kernel
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
    return Session(session, package.output_count());
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
    std::vector<DLManagedTensorVersioned*> raw(outputs_);
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
    return Session(session, outputs_);
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

  // See aot_session_set_observer; nullptr removes it.
  Result<Done> set_observer(aot_observer_fn observer, void* context) {
    return done(aot_session_set_observer(session_.get(), observer, context));
  }

  aot_session* get() const { return session_.get(); }

 private:
  struct Free {
    void operator()(aot_session* session) const { aot_session_free(session); }
  };
  Session(aot_session* session, size_t outputs) : session_(session), outputs_(outputs) {}

  std::unique_ptr<aot_session, Free> session_;
  size_t outputs_;
};

}  // namespace aot

#endif  // AOT_AOT_HPP_
