// HTTP on a port: connections with limits of number, size, memory and time.
#ifndef AOT_SERVE_HTTP_SERVER_H_
#define AOT_SERVE_HTTP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "service.h"

namespace serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any that is free
  int threads = 2;
  size_t max_connections = 1024;
  size_t max_header = 16 << 10;
  size_t max_body = 64 << 20;
  size_t max_memory = size_t{1} << 30;  // of all requests that are being read and answered
  std::chrono::seconds header_time{10};
  std::chrono::seconds body_time{60};
  std::chrono::seconds write_time{60};
  std::chrono::seconds idle_time{120};
};

class HttpServer {
 public:
  // Listens; throws aot::Error where the port cannot be had.
  HttpServer(const HttpOptions& options, Service& service);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

  // Takes what clients have sent, and no more connections; returns when every request has been
  // answered, or when `time` is over, with false.
  bool drain(std::chrono::milliseconds time);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serve

#endif  // AOT_SERVE_HTTP_SERVER_H_
