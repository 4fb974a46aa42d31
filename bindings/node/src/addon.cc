// The addon: classes over aot.hpp. lib/index.js checks what comes, and is what programs see.
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensors.h"

namespace aot_node {
namespace {

// What every class of one environment (the main thread, or a worker) shares.
struct Shared {
  Napi::FunctionReference session;
};

Napi::Error js_error(Napi::Env env, const aot::Error& error) {
  Napi::Error made = Napi::Error::New(env, error.what());
  made.Set("code", error.code_name());
  made.Set("origin", error.origin());
  return made;
}

template <typename T>
T opened(Napi::Env env, aot::Result<T> result) {
  if (!result.ok()) throw js_error(env, result.error());
  return std::move(result).value();
}

std::string text_of(const Napi::Object& options, const char* name) {
  const Napi::Value value = options.Get(name);
  return value.IsString() ? value.As<Napi::String>().Utf8Value() : std::string();
}

Napi::Object info_of(Napi::Env env, const aot_tensor_info& info) {
  Napi::Object object = Napi::Object::New(env);
  Napi::Array dims = Napi::Array::New(env);
  const auto count = [env](int64_t size) -> Napi::Value {
    return size < 0 ? env.Null() : Napi::Number::New(env, static_cast<double>(size));
  };
  for (int32_t axis = 0; axis < info.ndim; ++axis) {
    const aot_dim_info& raw = *aot_tensor_dim(&info, static_cast<size_t>(axis));
    Napi::Object dim = Napi::Object::New(env);
    dim.Set("size", count(raw.size));
    dim.Set("min", static_cast<double>(raw.min));
    dim.Set("max", count(raw.max));
    dim.Set("multipleOf", static_cast<double>(raw.multiple_of));
    dim.Set("label", raw.label);
    dims.Set(static_cast<uint32_t>(axis), dim);
  }
  object.Set("name", info.name);
  object.Set("dtype", info.dtype_name);
  object.Set("dims", dims);
  object.Set("changed", Napi::Boolean::New(env, info.changed != 0));
  return object;
}

// Ends runs from the main thread.
class Cancellation : public Napi::ObjectWrap<Cancellation> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "Cancellation", {InstanceMethod<&Cancellation::cancel>("cancel")});
  }
  explicit Cancellation(const Napi::CallbackInfo& info)
      : ObjectWrap(info),
        handle_(
            std::make_shared<aot::Cancellation>(opened(info.Env(), aot::Cancellation::create()))) {}

  void cancel(const Napi::CallbackInfo&) { handle_->cancel(); }
  std::shared_ptr<aot::Cancellation> handle() const { return handle_; }

 private:
  std::shared_ptr<aot::Cancellation> handle_;
};

class RunWorker;

// A package and one of its sessions; a run keeps both, whoever else lets them go. Of the runs, one
// has a thread of the pool, and the others wait here: they would hold threads that others want.
struct Loaded {
  std::shared_ptr<aot::Package> package;
  aot::Session session;
  bool busy = false;  // the rest is of JavaScript's thread
  std::deque<RunWorker*> waiting = {};
};

aot::RunOptions run_options(double timeout_ms, const aot::Cancellation* cancellation) {
  aot::RunOptions options;
  options.host_outputs = true;
  options.timeout_ns = static_cast<int64_t>(timeout_ms * 1e6);
  options.cancellation = cancellation != nullptr ? cancellation->get() : nullptr;
  return options;
}

aot::Result<std::vector<aot::Tensor>> run(Loaded& loaded, const std::vector<Input>& inputs,
                                          const aot::RunOptions& options) {
  std::vector<const DLTensor*> views;
  views.reserve(inputs.size());
  for (const Input& input : inputs) views.push_back(&input.tensor.view());
  return loaded.session.run(views.data(), views.size(), options);
}

Napi::Array outputs_of(Napi::Env env, const Loaded& loaded, std::vector<aot::Tensor> tensors) {
  Napi::Array outputs = Napi::Array::New(env, tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    outputs.Set(static_cast<uint32_t>(i),
                output_of(env, std::move(tensors[i]), loaded.package->output(i).dtype_name));
  }
  return outputs;
}

// A run on a thread of the pool. What the model changes is written back when it is over.
class RunWorker : public Napi::AsyncWorker {
 public:
  RunWorker(Napi::Env env, std::shared_ptr<Loaded> loaded, const Napi::Array& list,
            double timeout_ms, std::shared_ptr<aot::Cancellation> cancellation)
      : AsyncWorker(env),
        deferred_(Napi::Promise::Deferred::New(env)),
        loaded_(std::move(loaded)),
        inputs_(inputs_of(list, true)),
        given_(Napi::Persistent(list.As<Napi::Object>())),
        timeout_ms_(timeout_ms),
        cancellation_(std::move(cancellation)) {}

  void Execute() override {
    outputs_ = run(*loaded_, inputs_, run_options(timeout_ms_, cancellation_.get()));
  }

  // Runs when those before it are over; it deletes itself.
  void enqueue() {
    if (loaded_->busy) {
      loaded_->waiting.push_back(this);
    } else {
      loaded_->busy = true;
      Queue();
    }
  }

  void OnOK() override {
    const Napi::Env env = Env();
    next();
    if (!outputs_->ok()) {
      deferred_.Reject(js_error(env, outputs_->error()).Value());
      return;
    }
    try {
      write_back();
      deferred_.Resolve(outputs_of(env, *loaded_, std::move(*outputs_).value()));
    } catch (const Napi::Error& error) {
      deferred_.Reject(error.Value());
    }
  }

  void OnError(const Napi::Error& error) override {
    next();
    deferred_.Reject(error.Value());
  }

  Napi::Promise promise() const { return deferred_.Promise(); }

 private:
  void next() {
    loaded_->busy = !loaded_->waiting.empty();
    if (!loaded_->busy) return;
    RunWorker* worker = loaded_->waiting.front();
    loaded_->waiting.pop_front();
    worker->Queue();
  }

  void write_back() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (loaded_->package->input(i).changed == 0) continue;
      const auto entry = given_.Value().Get(static_cast<uint32_t>(i)).As<Napi::Object>();
      const auto data = entry.Get("data").As<Napi::TypedArray>();
      // It may have been given away meanwhile.
      if (data.ByteLength() != inputs_[i].bytes || inputs_[i].bytes == 0) continue;
      char* to = static_cast<char*>(data.ArrayBuffer().Data()) + data.ByteOffset();
      std::memcpy(to, inputs_[i].copy.get(), inputs_[i].bytes);
    }
  }

  Napi::Promise::Deferred deferred_;
  std::shared_ptr<Loaded> loaded_;
  std::vector<Input> inputs_;
  Napi::ObjectReference given_;
  double timeout_ms_;
  std::shared_ptr<aot::Cancellation> cancellation_;
  std::optional<aot::Result<std::vector<aot::Tensor>>> outputs_;
};

class Session : public Napi::ObjectWrap<Session> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(
        env, "Session",
        {InstanceMethod<&Session::run_async>("run"), InstanceMethod<&Session::run_sync>("runSync"),
         InstanceMethod<&Session::get_state>("state"),
         InstanceMethod<&Session::set_state>("setState"), InstanceMethod<&Session::reset>("reset"),
         InstanceMethod<&Session::clone>("clone"), InstanceMethod<&Session::close>("close"),
         InstanceAccessor<&Session::isa>("isa"),
         InstanceAccessor<&Session::num_threads>("numThreads")});
  }
  // Called by this file alone, with what it holds.
  explicit Session(const Napi::CallbackInfo& info)
      : ObjectWrap(info), loaded_(*info[0].As<Napi::External<std::shared_ptr<Loaded>>>().Data()) {}

  static Napi::Value wrap(Napi::Env env, std::shared_ptr<Loaded> loaded) {
    return env.GetInstanceData<Shared>()->session.New(
        {Napi::External<std::shared_ptr<Loaded>>::New(env, &loaded)});
  }

 private:
  // (inputs, timeout in ms, cancellation or undefined)
  Napi::Value run_async(const Napi::CallbackInfo& info) {
    auto* worker = new RunWorker(info.Env(), loaded(info), info[0].As<Napi::Array>(),
                                 info[1].As<Napi::Number>(), cancellation(info[2]));
    const Napi::Promise promise = worker->promise();
    worker->enqueue();
    return promise;
  }

  Napi::Value run_sync(const Napi::CallbackInfo& info) {
    const std::vector<Input> inputs = inputs_of(info[0].As<Napi::Array>(), false);
    const auto own = loaded(info);
    const auto options = run_options(info[1].As<Napi::Number>(), nullptr);
    return outputs_of(info.Env(), *own, opened(info.Env(), run(*own, inputs, options)));
  }

  // (index)
  Napi::Value get_state(const Napi::CallbackInfo& info) {
    const auto own = loaded(info);
    const size_t index = info[0].As<Napi::Number>().Uint32Value();
    const aot_tensor_info& state = own->package->state(index);
    Napi::ArrayBuffer buffer = Napi::ArrayBuffer::New(info.Env(), bytes_of(state));
    opened(info.Env(), own->session.get_state(index, buffer.Data(), buffer.ByteLength()));
    return typed(info.Env(), state.dtype, buffer);
  }

  // (index, typed array)
  void set_state(const Napi::CallbackInfo& info) {
    const size_t index = info[0].As<Napi::Number>().Uint32Value();
    const auto data = info[1].As<Napi::TypedArray>();
    const char* from = static_cast<char*>(data.ArrayBuffer().Data()) + data.ByteOffset();
    opened(info.Env(), loaded(info)->session.set_state(index, from, data.ByteLength()));
  }

  void reset(const Napi::CallbackInfo& info) { opened(info.Env(), loaded(info)->session.reset()); }

  Napi::Value clone(const Napi::CallbackInfo& info) {
    const auto own = loaded(info);
    aot::Session session = opened(info.Env(), own->session.clone());
    return wrap(info.Env(), std::make_shared<Loaded>(Loaded{own->package, std::move(session)}));
  }

  void close(const Napi::CallbackInfo&) { loaded_.reset(); }

  Napi::Value isa(const Napi::CallbackInfo& info) {
    return Napi::String::New(info.Env(), loaded(info)->session.isa());
  }
  Napi::Value num_threads(const Napi::CallbackInfo& info) {
    return Napi::Number::New(info.Env(), loaded(info)->session.num_threads());
  }

  static size_t bytes_of(const aot_tensor_info& state) {
    size_t bytes = size_of(state.dtype);
    for (int32_t axis = 0; axis < state.ndim; ++axis) {
      bytes *= static_cast<size_t>(aot_tensor_dim(&state, static_cast<size_t>(axis))->size);
    }
    return bytes;
  }

  static std::shared_ptr<aot::Cancellation> cancellation(const Napi::Value& value) {
    if (!value.IsObject()) return nullptr;
    return Cancellation::Unwrap(value.As<Napi::Object>())->handle();
  }

  std::shared_ptr<Loaded> loaded(const Napi::CallbackInfo& info) const {
    if (loaded_ == nullptr) throw Napi::Error::New(info.Env(), "the session is closed");
    return loaded_;
  }

  std::shared_ptr<Loaded> loaded_;
};

class Package : public Napi::ObjectWrap<Package> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "Package",
                       {InstanceMethod<&Package::contract>("contract"),
                        InstanceMethod<&Package::session>("session"),
                        InstanceMethod<&Package::load_weights>("loadWeights")});
  }
  // (path, options)
  explicit Package(const Napi::CallbackInfo& info) : ObjectWrap(info) {
    const auto given = info[1].As<Napi::Object>();
    aot::PackageOptions options;
    const std::string verify = text_of(given, "verify");
    if (verify == "full") options.verify = AOT_VERIFY_FULL;
    if (verify == "lazy") options.verify = AOT_VERIFY_LAZY;
    options.weights = text_of(given, "weights");
    options.copy = given.Get("copy").ToBoolean();
    options.policy.operator_libraries = !given.Get("noOperatorLibraries").ToBoolean();
    options.policy.require_proved = given.Get("requireProved").ToBoolean();
    if (given.Get("keys").IsArray()) {
      const auto keys = given.Get("keys").As<Napi::Array>();
      for (uint32_t i = 0; i < keys.Length(); ++i) {
        options.policy.keys.push_back(keys.Get(i).ToString());
      }
    }
    const std::string path = info[0].As<Napi::String>();
    package_ =
        std::make_shared<aot::Package>(opened(info.Env(), aot::Package::open(path, options)));
  }

 private:
  Napi::Value contract(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    Napi::Object all = Napi::Object::New(env);
    const auto list = [&](const char* name, size_t count, auto at) {
      Napi::Array rows = Napi::Array::New(env, count);
      for (size_t i = 0; i < count; ++i) rows.Set(static_cast<uint32_t>(i), info_of(env, at(i)));
      all.Set(name, rows);
    };
    const aot::Package& own = *package_;
    list("inputs", own.input_count(), [&](size_t i) { return own.input(i); });
    list("outputs", own.output_count(), [&](size_t i) { return own.output(i); });
    list("states", own.state_count(), [&](size_t i) { return own.state(i); });
    return all;
  }

  Napi::Value session(const Napi::CallbackInfo& info) {
    const auto given = info[0].As<Napi::Object>();
    aot::SessionOptions options;
    options.device = text_of(given, "device");
    options.isa = text_of(given, "isa");
    if (given.Get("numThreads").IsNumber()) {
      options.num_threads = given.Get("numThreads").As<Napi::Number>();
    }
    aot::Session made = opened(info.Env(), aot::Session::create(*package_, options));
    return Session::wrap(info.Env(), std::make_shared<Loaded>(Loaded{package_, std::move(made)}));
  }

  // (path, partial)
  void load_weights(const Napi::CallbackInfo& info) {
    aot::ReplaceOptions options;
    options.partial = info[1].ToBoolean();
    const std::string path = info[0].As<Napi::String>();
    opened(info.Env(), package_->load_weights(path, options));
  }

  std::shared_ptr<aot::Package> package_;
};

Napi::Object init(Napi::Env env, Napi::Object exports) {
  auto shared = std::make_unique<Shared>();
  shared->session = Napi::Persistent(Session::define(env));
  env.SetInstanceData(shared.release());
  exports.Set("Package", Package::define(env));
  exports.Set("Cancellation", Cancellation::define(env));
  exports.Set("runtimeVersion", aot_runtime_version());
  exports.Set("cpuIsa", aot_cpu_isa());
  exports.Set("abiVersion", aot_abi_version());
  return exports;
}

NODE_API_MODULE(aot_runtime, init)

}  // namespace
}  // namespace aot_node
