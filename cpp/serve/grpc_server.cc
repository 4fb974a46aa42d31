#include "grpc_server.h"

#include <google/protobuf/stubs/common.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/version_info.h>
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
#include <grpc/support/log.h>
#endif

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <vector>

#include "grpc_codec.h"
#include "http.h"
#include "open_inference.grpc.pb.h"

namespace serve {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

struct Code {
  aot_code code;
  grpc::StatusCode grpc;
};

constexpr Code kCodes[] = {{AOT_INVALID_ARGUMENT, grpc::StatusCode::INVALID_ARGUMENT},
                           {AOT_SHAPE_MISMATCH, grpc::StatusCode::INVALID_ARGUMENT},
                           {AOT_NOT_FOUND, grpc::StatusCode::NOT_FOUND},
                           {AOT_CORRUPT_PACKAGE, grpc::StatusCode::FAILED_PRECONDITION},
                           {AOT_INCOMPATIBLE, grpc::StatusCode::FAILED_PRECONDITION},
                           {AOT_UNAVAILABLE, grpc::StatusCode::UNAVAILABLE},
                           {AOT_OUT_OF_MEMORY, grpc::StatusCode::RESOURCE_EXHAUSTED},
                           {AOT_UNSUPPORTED, grpc::StatusCode::UNIMPLEMENTED},
                           {AOT_CANCELLED, grpc::StatusCode::CANCELLED},
                           {AOT_DEADLINE_EXCEEDED, grpc::StatusCode::DEADLINE_EXCEEDED},
                           {AOT_LIMIT_EXCEEDED, grpc::StatusCode::RESOURCE_EXHAUSTED},
                           {AOT_REFUSED, grpc::StatusCode::PERMISSION_DENIED}};

grpc::Status status_of(const aot::Error& error) {
  for (const Code& row : kCodes) {
    if (row.code == error.code()) return {row.grpc, error.what()};
  }
  return {grpc::StatusCode::INTERNAL, error.what()};
}

// gRPC and protobuf write text to stderr, where our log is JSON, for what clients do wrong, and the
// clients' own bytes with it. The clients are told; what is wrong here shows in what we call. Newer
// versions of both log through Abseil, and not these.
void silence_libraries() {
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler(nullptr);
#endif
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
  gpr_set_log_function([](gpr_log_func_args*) {});
#endif
}

Clock::time_point deadline_of(const CallbackServerContext& context) {
  const auto given = context.deadline();
  const auto left = given - std::chrono::system_clock::now();
  if (given == std::chrono::system_clock::time_point::max() || left > std::chrono::hours(24)) {
    return kNever;
  }
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
}

// gRPC calls OnDone after all else that it calls of a reactor has ended. The thread sanitizer sees
// nothing of what orders them, in a library that it has not compiled: it is told.
#if defined(__SANITIZE_THREAD__)
void says_it_has_ended(void* reactor) { __tsan_release(reactor); }
void says_all_have_ended(void* reactor) { __tsan_acquire(reactor); }
#else
void says_it_has_ended(void*) {}
void says_all_have_ended(void*) {}
#endif

// One call to a model: deletes itself when gRPC is done with it.
class InferReactor : public ServerUnaryReactor {
 public:
  void start(Service& service, CallbackServerContext& context, bool here,
             const inference::ModelInferRequest& message, inference::ModelInferResponse* reply) {
    const std::shared_ptr<Pending> pending = pending_;
    const auto header = context.client_metadata().find("traceparent");
    const TraceContext trace =
        read_trace_context(header == context.client_metadata().end()
                               ? std::string_view()
                               : std::string_view(header->second.data(), header->second.size()));
    const auto decode = [&message](const Contract& contract) {
      return decode_message(contract, message);
    };
    // Nothing of the reactor may be touched after Finish.
    const auto done = [this, &service, trace, reply](const Contract& contract,
                                                     const InferRequest& request, Outcome outcome) {
      service.log_call(contract, request, outcome, trace, "grpc");
      if (outcome.error) return Finish(status_of(*outcome.error));
      encode_message(contract, request, outcome, reply);
      Finish(grpc::Status::OK);
    };
    try {
      service.infer({message.model_name(), message.model_version(), deadline_of(context), here},
                    decode, *pending, done);
    } catch (const aot::Error& error) {
      service.metrics().bad_requests->Increment();
      Finish(status_of(error));
    }
  }

 private:
  void OnCancel() override {
    pending_->cancel(aot::Error(AOT_CANCELLED, "the client has cancelled its call"));
    says_it_has_ended(this);
  }
  void OnDone() override {
    says_all_have_ended(this);
    delete this;
  }

  std::shared_ptr<Pending> pending_ = std::make_shared<Pending>();
};

class Handlers final : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit Handlers(serve::Service& service) : service_(service) {}

  ServerUnaryReactor* ServerLive(CallbackServerContext* context,
                                 const inference::ServerLiveRequest*,
                                 inference::ServerLiveResponse* reply) override {
    reply->set_live(service_.live());
    return finish(context);
  }

  ServerUnaryReactor* ServerReady(CallbackServerContext* context,
                                  const inference::ServerReadyRequest*,
                                  inference::ServerReadyResponse* reply) override {
    reply->set_ready(service_.ready());
    return finish(context);
  }

  ServerUnaryReactor* ModelReady(CallbackServerContext* context,
                                 const inference::ModelReadyRequest* request,
                                 inference::ModelReadyResponse* reply) override {
    reply->set_ready(service_.ready(request->name(), request->version()));
    return finish(context);
  }

  ServerUnaryReactor* ServerMetadata(CallbackServerContext* context,
                                     const inference::ServerMetadataRequest*,
                                     inference::ServerMetadataResponse* reply) override {
    reply->set_name("aot-serve");
    reply->set_version(aot_runtime_version());
    reply->add_extensions("model_repository");
    return finish(context);
  }

  ServerUnaryReactor* ModelMetadata(CallbackServerContext* context,
                                    const inference::ModelMetadataRequest* request,
                                    inference::ModelMetadataResponse* reply) override {
    return finish(context, [&] {
      const auto model = service_.repository().find(request->name(), request->version());
      const Contract& contract = *model->contract();
      reply->set_name(contract.model);
      for (const std::string& version : service_.repository().versions(contract.model)) {
        reply->add_versions(version);
      }
      reply->set_platform("aot_package");
      for (const TensorSpec& spec : contract.inputs) describe(spec, reply->add_inputs());
      for (const TensorSpec& spec : contract.outputs) describe(spec, reply->add_outputs());
    });
  }

  ServerUnaryReactor* ModelInfer(CallbackServerContext* context,
                                 const inference::ModelInferRequest* request,
                                 inference::ModelInferResponse* reply) override {
    auto* reactor = new InferReactor();
    // gRPC has at least two threads that call us: one of them may be held for a short run.
    const bool here = !held_.exchange(true);
    reactor->start(service_, *context, here, *request, reply);
    if (here) held_ = false;
    return reactor;
  }

  ServerUnaryReactor* RepositoryIndex(CallbackServerContext* context,
                                      const inference::RepositoryIndexRequest* request,
                                      inference::RepositoryIndexResponse* reply) override {
    for (const IndexRow& row : service_.repository().index()) {
      if (request->ready() && !row.ready) continue;
      auto* model = reply->add_models();
      model->set_name(row.name);
      model->set_version(row.version);
      model->set_state(row.ready ? "READY" : "UNAVAILABLE");
      model->set_reason(row.reason);
    }
    return finish(context);
  }

  ServerUnaryReactor* RepositoryModelLoad(CallbackServerContext* context,
                                          const inference::RepositoryModelLoadRequest* request,
                                          inference::RepositoryModelLoadResponse*) override {
    return later(context, [this, name = name_of(*request)] { service_.load(name); });
  }

  ServerUnaryReactor* RepositoryModelUnload(CallbackServerContext* context,
                                            const inference::RepositoryModelUnloadRequest* request,
                                            inference::RepositoryModelUnloadResponse*) override {
    return later(context, [this, name = name_of(*request)] { service_.unload(name); });
  }

 private:
  template <typename Request>
  static std::string name_of(const Request& request) {
    return request.model_name().empty() ? request.repository_name() : request.model_name();
  }

  static void describe(const TensorSpec& spec,
                       inference::ModelMetadataResponse::TensorMetadata* tensor) {
    tensor->set_name(spec.name);
    tensor->set_datatype(spec.type->name);
    for (const Dim& dim : spec.dims) tensor->add_shape(dim.size);
  }

  static ServerUnaryReactor* finish(CallbackServerContext* context) {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  template <typename Work>
  static ServerUnaryReactor* finish(CallbackServerContext* context, Work work) {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    try {
      work();
      reactor->Finish(grpc::Status::OK);
    } catch (const aot::Error& error) {
      reactor->Finish(status_of(error));
    }
    return reactor;
  }

  // Loading takes long, and gRPC's threads serve everybody.
  template <typename Work>
  ServerUnaryReactor* later(CallbackServerContext* context, Work work) {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto over = [](const std::future<void>& task) {
      return task.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    tasks_.erase(std::remove_if(tasks_.begin(), tasks_.end(), over), tasks_.end());
    tasks_.push_back(std::async(std::launch::async, [reactor, work] {
      try {
        work();
        reactor->Finish(grpc::Status::OK);
      } catch (const aot::Error& error) {
        reactor->Finish(status_of(error));
      }
    }));
    return reactor;
  }

  serve::Service& service_;        // the base has a Service of its own
  std::atomic<bool> held_{false};  // one of gRPC's threads, by a run
  std::mutex mutex_;
  std::vector<std::future<void>> tasks_;
};

}  // namespace

struct GrpcServer::Impl {
  explicit Impl(Service& service) : handlers(service) {}

  Handlers handlers;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
  std::future<bool> drained;
};

GrpcServer::GrpcServer(const Flags& flags, Service& service)
    : impl_(std::make_unique<Impl>(service)) {
  silence_libraries();
  const HttpOptions& limits = flags.http;
  const bool v6 = limits.host.find(':') != std::string::npos;
  const std::string address = (v6 ? "[" + limits.host + "]" : limits.host) + ":" +
                              std::to_string(flags.grpc_port.value_or(0));
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &impl_->port);
  builder.RegisterService(&impl_->handlers);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits.max_body));
  builder.SetMaxSendMessageSize(-1);
  grpc::ResourceQuota quota("aot-serve");
  quota.Resize(limits.max_memory);
  builder.SetResourceQuota(quota);
  // Else two servers would share a port, and its requests.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(
      GRPC_ARG_MAX_CONNECTION_IDLE_MS,
      static_cast<int>(std::min<int64_t>(limits.idle_time.count() * 1000, INT32_MAX)));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits.max_header));
  impl_->server = builder.BuildAndStart();
  if (impl_->server == nullptr || impl_->port == 0) {
    throw aot::Error(AOT_UNAVAILABLE, "cannot listen on " + address + " for gRPC");
  }
}

GrpcServer::~GrpcServer() {
  if (impl_->server != nullptr) impl_->server->Shutdown(std::chrono::system_clock::now());
}

uint16_t GrpcServer::port() const { return static_cast<uint16_t>(impl_->port); }

void GrpcServer::begin_drain(std::chrono::seconds time) {
  impl_->drained = std::async(std::launch::async, [this, time] {
    const auto until = Clock::now() + time;
    impl_->server->Shutdown(std::chrono::system_clock::now() + time);
    return Clock::now() < until;
  });
}

bool GrpcServer::drain() { return impl_->drained.get(); }

}  // namespace serve
