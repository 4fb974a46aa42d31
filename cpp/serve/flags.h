// The command line.
#ifndef AOT_SERVE_FLAGS_H_
#define AOT_SERVE_FLAGS_H_

#include <optional>
#include <string>

#include "aot/aot.hpp"
#include "http_server.h"
#include "log.h"
#include "service.h"

namespace serve {

struct Flags {
  std::string repository;
  HttpOptions http;
  std::optional<uint16_t> grpc_port;  // none: no gRPC
  int grpc_threads = 2;
  ServiceOptions service;
  aot::PackageOptions package;
  LogLevel log = LogLevel::kInfo;
  int drain_delay_s = 0;  // between "not ready" and the end of accepting
  int drain_time_s = 30;  // for requests under way, before they are cancelled
};

// Throws aot::Error with one sentence for a wrong word; prints and returns nothing for --help and
// --version.
std::optional<Flags> read_flags(int argc, char** argv);

}  // namespace serve

#endif  // AOT_SERVE_FLAGS_H_
