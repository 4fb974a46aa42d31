// aot-serve: packages as a service. docs/serving.md says how it is used.
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "flags.h"
#include "http_server.h"
#include "log.h"
#include "metrics.h"
#include "repository.h"
#include "service.h"
#if defined(AOT_SERVE_GRPC)
#include "grpc_server.h"
#endif

namespace {

using serve::LogLevel;

// Signals come to the main thread alone, when it asks for them.
sigset_t block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return set;
}

// Until SIGTERM or SIGINT; SIGHUP looks into the folder again.
void wait_for_end(const sigset_t& set, serve::Repository& repository, serve::Log& log) {
  while (true) {
    int number = 0;
    sigwait(&set, &number);
    if (number != SIGHUP) return;
    try {
      repository.load_all();
    } catch (const aot::Error& error) {
      log.write(LogLevel::kError, "reload failed", {{"reason", error.what()}});
    }
  }
}

int run(const serve::Flags& flags) {
  const sigset_t signals = block_signals();
  serve::Log log(flags.log);
  serve::Metrics metrics;
  serve::Repository repository(flags.repository, flags.package, metrics, log);
  repository.load_all();
  serve::Service service(flags.service, repository, metrics, log);
  serve::HttpServer http(flags.http, service);
#if defined(AOT_SERVE_GRPC)
  std::unique_ptr<serve::GrpcServer> grpc;
  if (flags.grpc_port) grpc = std::make_unique<serve::GrpcServer>(flags, service);
  const int grpc_port = grpc ? grpc->port() : 0;
#else
  const int grpc_port = 0;
#endif
  log.write(LogLevel::kInfo, "serving",
            {{"host", flags.http.host}, {"http_port", http.port()}, {"grpc_port", grpc_port}});

  wait_for_end(signals, repository, log);
  service.begin_end();
  log.write(LogLevel::kInfo, "ending", {{"delay_s", flags.drain_delay_s}});
  std::this_thread::sleep_for(std::chrono::seconds(flags.drain_delay_s));
  const std::chrono::seconds time(flags.drain_time_s);
#if defined(AOT_SERVE_GRPC)
  if (grpc) grpc->begin_drain(time);
#endif
  bool whole = http.drain(time);
#if defined(AOT_SERVE_GRPC)
  if (grpc) whole = grpc->drain() && whole;
#endif
  if (!whole) {
    repository.cancel_all(aot::Error(AOT_CANCELLED, "the server is ending"));
    http.drain(std::chrono::seconds(2));
  }
  repository.retire_all();
  log.write(LogLevel::kInfo, "ended", {{"whole", whole}});
  return whole ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::optional<serve::Flags> flags = serve::read_flags(argc, argv);
    return flags ? run(*flags) : 0;
  } catch (const aot::Error& error) {
    std::fprintf(stderr, "aot-serve: %s\n", error.what());
    return error.code() == AOT_INVALID_ARGUMENT ? 2 : 1;
  }
}
