#include "routes.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "v2_json.h"

namespace serve {
namespace {

using nlohmann::json;

// The path's parts, with %XX read; throws for what is none.
std::vector<std::string> split(const std::string& target) {
  std::vector<std::string> parts;
  std::string part;
  const auto digit = [](char c) {
    const char* digits = "0123456789abcdef";
    const char* found = std::strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    return c == '\0' || found == nullptr ? -1 : static_cast<int>(found - digits);
  };
  const size_t end = std::min(target.find('?'), target.size());
  for (size_t i = 0; i < end; ++i) {
    if (target[i] == '/') {
      if (!part.empty()) parts.push_back(std::move(part));
      part.clear();
    } else if (target[i] == '%' && i + 2 < end && digit(target[i + 1]) >= 0 &&
               digit(target[i + 2]) >= 0) {
      part.push_back(static_cast<char>(digit(target[i + 1]) * 16 + digit(target[i + 2])));
      i += 2;
    } else {
      part.push_back(target[i]);
    }
  }
  if (!part.empty()) parts.push_back(std::move(part));
  return parts;
}

HttpReply json_reply(const json& value) {
  HttpReply reply;
  reply.body = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return reply;
}

// {"live": true}: clients look at the status, or, as KServe's does, at the body.
HttpReply health_reply(const char* what, bool good) {
  HttpReply reply = json_reply({{what, good}});
  reply.status = good ? 200 : 503;
  return reply;
}

[[noreturn]] void no_such_path(const HttpRequest& request) {
  throw aot::Error(AOT_NOT_FOUND, request.method + " " + request.target.substr(0, 200) +
                                      " is not part of the protocol; there are GET /v2/models/NAME,"
                                      " POST /v2/models/NAME/infer, GET /v2/health/ready,"
                                      " GET /metrics and others (docs/serving.md)");
}

// The body of a request that holds no tensors; discarded where it is no JSON.
json small_json(const HttpRequest& request) {
  constexpr size_t kMost = 64 << 10;
  if (request.body->size() > kMost) {
    throw aot::Error(AOT_LIMIT_EXCEEDED, "the body of this request may have 65536 bytes");
  }
  return json::parse(*request.body, nullptr, false);
}

size_t json_length(const HttpRequest& request) {
  const std::string& given = request.header("inference-header-content-length");
  if (given.empty()) return request.body->size();
  const bool digits =
      given.size() <= 18 && given.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) {
    throw aot::Error(AOT_INVALID_ARGUMENT,
                     "Inference-Header-Content-Length must be a number of bytes, not '" +
                         given.substr(0, 40) + "'");
  }
  return std::stoull(given);
}

HttpReply infer_reply(const Contract& contract, const InferRequest& request,
                      const Outcome& outcome) {
  if (outcome.error) return error_reply(*outcome.error);
  try {
    InferReply encoded = encode_infer(contract, request, outcome);
    HttpReply reply;
    reply.body = std::move(encoded.body);
    if (encoded.binary) {
      reply.content_type = "application/octet-stream";
      reply.headers.emplace_back("Inference-Header-Content-Length",
                                 std::to_string(encoded.json_bytes));
    }
    return reply;
  } catch (const aot::Error& error) {
    return error_reply(error);
  }
}

}  // namespace

void Routes::handle(HttpRequest request, const std::shared_ptr<Pending>& pending, Reply reply) {
  try {
    route(request, pending, reply);
  } catch (const aot::Error& error) {
    service_.metrics().bad_requests->Increment();
    reply(error_reply(error));
  } catch (const std::bad_alloc&) {
    reply(error_reply(aot::Error(AOT_OUT_OF_MEMORY, "there is no memory for this request")));
  }
}

void Routes::route(const HttpRequest& request, const std::shared_ptr<Pending>& pending,
                   const Reply& reply) {
  const Parts parts = split(request.target);
  const bool read = request.method == "GET" || request.method == "HEAD";
  if (parts.size() >= 3 && parts[0] == "v2" && parts[1] == "models") {
    return model(request, parts, pending, reply);
  }
  if (request.method == "POST" && parts.size() >= 3 && parts[0] == "v2" &&
      parts[1] == "repository") {
    return repository(request, parts, reply);
  }
  if (read && parts == Parts{"v2"}) return reply(json_reply(server_metadata()));
  if (read && parts == Parts{"v2", "health", "live"}) {
    return reply(health_reply("live", service_.live()));
  }
  if (read && parts == Parts{"v2", "health", "ready"}) {
    return reply(health_reply("ready", service_.ready()));
  }
  if (read && parts == Parts{"metrics"}) {
    HttpReply text;
    text.content_type = "text/plain; version=0.0.4";
    text.body = service_.metrics().text();
    return reply(std::move(text));
  }
  no_such_path(request);
}

// /v2/models/NAME[/versions/VERSION][/ready | /config | /infer]
void Routes::model(const HttpRequest& request, const Parts& parts,
                   const std::shared_ptr<Pending>& pending, const Reply& reply) {
  const std::string& name = parts[2];
  size_t next = 3;
  std::string version;
  if (parts.size() > next + 1 && parts[next] == "versions") {
    version = parts[next + 1];
    next += 2;
  }
  if (parts.size() > next + 1) no_such_path(request);
  const std::string what = parts.size() > next ? parts[next] : "";
  if (request.method == "POST" && what == "infer") {
    return infer(request, name, version, pending, reply);
  }
  const bool read = request.method == "GET" || request.method == "HEAD";
  if (!read || (what != "" && what != "ready" && what != "config")) no_such_path(request);
  describe(name, version, what, reply);
}

void Routes::describe(const std::string& name, const std::string& version, const std::string& what,
                      const Reply& reply) {
  const std::shared_ptr<Model> found = service_.repository().find(name, version);
  if (what == "ready") return reply(health_reply("ready", !service_.ending()));
  if (what == "config") return reply(json_reply(model_config(*found)));
  reply(json_reply(model_metadata(*found->contract(), service_.repository().versions(name))));
}

void Routes::infer(const HttpRequest& request, const std::string& name, const std::string& version,
                   const std::shared_ptr<Pending>& pending, const Reply& reply) {
  if (!request.header("content-encoding").empty() &&
      request.header("content-encoding") != "identity") {
    throw aot::Error(AOT_UNSUPPORTED, "the body must not be compressed");
  }
  const size_t json_bytes = json_length(request);
  const auto decode = [&request, json_bytes](const Contract& contract) {
    return decode_infer(contract, request.body, json_bytes);
  };
  const auto done = [this, reply, name, version,
                     trace = read_trace_context(request.header("traceparent"))](
                        const Contract& contract, const InferRequest& inferred, Outcome outcome) {
    HttpReply answer = infer_reply(contract, inferred, outcome);
    answer.headers.emplace_back("traceparent", trace.header());
    service_.log_call(contract, inferred, outcome, trace, "http");
    reply(std::move(answer));
  };
  service_.infer({name, version, kNever, request.here}, decode, *pending, done);
}

// /v2/repository/index, /v2/repository/models/NAME/load, /v2/repository/models/NAME/unload
void Routes::repository(const HttpRequest& request, const Parts& parts, const Reply& reply) {
  if (parts.size() == 3 && parts[2] == "index") {
    const json given = small_json(request);
    const bool ready_only = given.is_object() && given.value("ready", json()) == json(true);
    return reply(json_reply(index_rows(service_.repository().index(), ready_only)));
  }
  if (parts.size() != 5 || parts[2] != "models" || (parts[4] != "load" && parts[4] != "unload")) {
    no_such_path(request);
  }
  const json given = small_json(request);
  if (given.is_object() && given.contains("parameters") && !given["parameters"].empty() &&
      parts[4] == "load") {
    throw aot::Error(AOT_UNSUPPORTED,
                     "a model's configuration and files come from its folder, not from a request");
  }
  later_([this, name = parts[3], load = parts[4] == "load", reply] {
    try {
      load ? service_.load(name) : service_.unload(name);
      reply(HttpReply{});
    } catch (const aot::Error& error) {
      reply(error_reply(error));
    }
  });
}

}  // namespace serve
