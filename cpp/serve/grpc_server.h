// The Open Inference Protocol over gRPC.
#ifndef AOT_SERVE_GRPC_SERVER_H_
#define AOT_SERVE_GRPC_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "flags.h"
#include "service.h"

namespace serve {

class GrpcServer {
 public:
  // Listens; throws aot::Error where the port cannot be had.
  GrpcServer(const Flags& flags, Service& service);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  uint16_t port() const;

  // Takes no more calls; those under way have `time`.
  void begin_drain(std::chrono::seconds time);
  // Waits for them; false where some were cancelled.
  bool drain();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serve

#endif  // AOT_SERVE_GRPC_SERVER_H_
