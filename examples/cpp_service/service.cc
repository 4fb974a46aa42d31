// Serves a package over HTTP, in the Open Inference Protocol's JSON form.
//   ./service model.pkg [PORT] [SESSIONS]
//   GET  /v2/health/ready           200 when it can answer
//   GET  /v2/models/model           names, types and shapes of inputs and outputs
//   POST /v2/models/model/infer     {"inputs": [{"name", "datatype", "shape", "data"}]}
//
// One package (the weights, once in memory) and a few sessions of one thread each: requests run at
// the same time without a lock around the model. A request that finds no free session waits. There
// are four more connections at work than sessions, and a body has at most MAX_BODY_MB megabytes
// (the environment's; 16 by default): JSON takes about eight times its size while it is read, so
// memory is bounded by both.
#include <httplib.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "aot/aot.hpp"
#include "tensor_json.h"

namespace {

using nlohmann::json;

// Sessions to borrow. All methods may be called from any thread.
class SessionPool {
 public:
  // Makes `count` sessions of one thread each; throws aot::Error.
  SessionPool(const aot::Package& package, int count) {
    aot::SessionOptions options;
    options.num_threads = 1;
    for (int i = 0; i < count; ++i) {
      free_.push_back(aot::Session::create(package, options).value());
    }
  }

  // Runs on a session of its own, waiting for one when all are at work.
  aot::Result<std::vector<aot::Tensor>> run(const std::vector<aot::Tensor>& inputs) {
    aot::Session session = take();
    auto outputs = session.run(inputs);
    give_back(std::move(session));
    return outputs;
  }

 private:
  aot::Session take() {
    std::unique_lock<std::mutex> lock(mutex_);
    available_.wait(lock, [this] { return !free_.empty(); });
    aot::Session session = std::move(free_.front());
    free_.pop_front();
    return session;
  }

  void give_back(aot::Session session) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(session));
    available_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable available_;
  std::deque<aot::Session> free_;
};

json describe(const aot_tensor_info& info) {
  json shape = json::array();
  for (int32_t i = 0; i < info.ndim; ++i) shape.push_back(info.dims[i].size);
  return {{"name", info.name},
          {"datatype", service::datatype_name(info.dtype)},
          {"shape", std::move(shape)}};
}

json describe(const aot::Package& package) {
  json inputs = json::array();
  json outputs = json::array();
  for (size_t i = 0; i < package.input_count(); ++i) inputs.push_back(describe(package.input(i)));
  for (size_t i = 0; i < package.output_count(); ++i) {
    outputs.push_back(describe(package.output(i)));
  }
  return {{"name", "model"}, {"platform", "aot_runtime"}, {"inputs", inputs}, {"outputs", outputs}};
}

// The request's tensors in the package's order; throws BadRequest.
std::vector<service::InputBytes> parse_inputs(const aot::Package& package, const json& request) {
  std::vector<service::InputBytes> inputs;
  for (size_t i = 0; i < package.input_count(); ++i) {
    const aot_tensor_info& info = package.input(i);
    const json* found = nullptr;
    for (const json& tensor : request.at("inputs")) {
      if (tensor.value("name", "") == info.name) found = &tensor;
    }
    if (found == nullptr) throw service::BadRequest(std::string("no input called ") + info.name);
    inputs.push_back(service::parse_input(*found, info));
  }
  return inputs;
}

// A code of the runtime as a status of HTTP: the caller's fault or ours.
int http_status(aot_code code) {
  const bool callers = code == AOT_INVALID_ARGUMENT || code == AOT_SHAPE_MISMATCH;
  return callers ? 400 : 500;
}

void reply(httplib::Response& response, int status, const json& body) {
  response.status = status;
  response.set_content(body.dump(), "application/json");
}

void infer(const aot::Package& package, SessionPool& pool, const std::string& body,
           httplib::Response& response) {
  try {
    const std::vector<service::InputBytes> bytes = parse_inputs(package, json::parse(body));
    std::vector<aot::Tensor> inputs;
    for (const service::InputBytes& input : bytes) inputs.push_back(input.view());
    const auto outputs = pool.run(inputs);
    if (!outputs) {
      reply(response, http_status(outputs.error().code()), {{"error", outputs.error().what()}});
      return;
    }
    json tensors = json::array();
    for (size_t i = 0; i < outputs.value().size(); ++i) {
      tensors.push_back(service::tensor_json(package.output(i).name, outputs.value()[i]));
    }
    reply(response, 200, {{"model_name", "model"}, {"outputs", std::move(tensors)}});
  } catch (const json::exception& error) {
    reply(response, 400, {{"error", error.what()}});
  } catch (const service::BadRequest& error) {
    reply(response, 400, {{"error", error.what()}});
  }
}

httplib::Server* running = nullptr;  // for the signal handler, which takes no arguments

void stop(int) { running->stop(); }

int serve(const std::string& path, int port, int sessions, size_t max_body) {
  const aot::Package package = aot::Package::open(path).value();
  SessionPool pool(package, sessions);
  const json description = describe(package);

  httplib::Server server;
  // Its default is SO_REUSEPORT, by which two services share a port and its requests.
  server.set_socket_options([](int socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.new_task_queue = [sessions] { return new httplib::ThreadPool(sessions + 4); };
  server.set_payload_max_length(max_body);
  server.set_read_timeout(30);
  server.set_keep_alive_timeout(1);  // an idle connection holds a thread
  // What the library refuses by itself (no such path, a large body) has an empty body.
  server.set_error_handler([max_body](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    const std::string what = response.status == 413
                                 ? "the body has more than " + std::to_string(max_body) + " bytes"
                                 : "status " + std::to_string(response.status) + ": see README.md";
    reply(response, response.status, {{"error", what}});
  });
  server.Get("/v2/health/ready", [](const httplib::Request&, httplib::Response& response) {
    reply(response, 200, {{"ready", true}});
  });
  server.Get("/v2/models/model", [&](const httplib::Request&, httplib::Response& response) {
    reply(response, 200, description);
  });
  server.Post("/v2/models/model/infer", [&](const httplib::Request&, httplib::Response& response,
                                            const httplib::ContentReader& read) {
    // Read here: the library takes at most 8 kB of the type that curl gives bodies.
    std::string body;
    const bool whole = read([&body](const char* data, size_t size) {
      body.append(data, size);
      return true;
    });
    if (whole) infer(package, pool, body, response);
  });
  if (!server.bind_to_port("127.0.0.1", port)) {
    std::fprintf(stderr, "error: port %d is taken; give another one\n", port);
    return 1;
  }
  running = &server;
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  std::printf("serving %s on http://127.0.0.1:%d with %d sessions\n", path.c_str(), port, sessions);
  std::fflush(stdout);
  server.listen_after_bind();
  return 0;
}

// The number in `text` (`otherwise` without one), from 1 to `most`; 0, with a message, for others.
int number(const char* text, const char* name, int otherwise, int most) {
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end != text && *end == '\0' && value >= 1 && value <= most) return static_cast<int>(value);
  std::fprintf(stderr, "error: %s must be a number from 1 to %d, not '%s'\n", name, most, text);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s model.pkg [PORT] [SESSIONS]\n", argv[0]);
    return 2;
  }
  const int port = number(argc > 2 ? argv[2] : nullptr, "PORT", 8000, 65535);
  const int sessions = number(argc > 3 ? argv[3] : nullptr, "SESSIONS", 4, 1024);
  const int megabytes = number(std::getenv("MAX_BODY_MB"), "MAX_BODY_MB", 16, 1024);
  if (port == 0 || sessions == 0 || megabytes == 0) return 2;
  return serve(argv[1], port, sessions, static_cast<size_t>(megabytes) << 20);
} catch (const aot::Error& error) {
  std::fprintf(stderr, "%s: %s\n", error.code_name(), error.what());
  return 1;
}
