#include "http_server.h"

#include <boost/asio.hpp>
#include <future>
#include <thread>
#include <vector>

#include "http_connection.h"

namespace serve {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kSweepPeriod{250};
constexpr std::chrono::milliseconds kAcceptPause{100};  // where the process has no file left

tcp::endpoint resolve(const HttpOptions& options) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.host, error);
  if (error) {
    throw aot::Error(AOT_INVALID_ARGUMENT,
                     "'" + options.host + "' is no address, such as 127.0.0.1 or ::1");
  }
  return {address, options.port};
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpOptions& options, Service& service)
      : shared(options, service),
        strand(asio::make_strand(context)),
        acceptor(strand),
        sweep_timer(strand),
        pause_timer(strand) {
    const tcp::endpoint endpoint = resolve(options);
    const auto check = [&](const error_code& error, const char* what) {
      if (!error) return;
      throw aot::Error(AOT_UNAVAILABLE, "cannot " + std::string(what) + " " + options.host +
                                            " port " + std::to_string(options.port) + ": " +
                                            error.message());
    };
    error_code error;
    acceptor.open(endpoint.protocol(), error);
    check(error, "open");
    // So that a restart need not wait for old connections; a port in use is refused all the same.
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    acceptor.bind(endpoint, error);
    check(error, "bind");
    acceptor.listen(asio::socket_base::max_listen_connections, error);
    check(error, "listen on");
    acceptor.non_blocking(true, error);
    port = acceptor.local_endpoint(error).port();
    asio::post(strand, [this] {
      accept();
      sweep();
    });
    for (int i = 0; i < options.threads; ++i) threads.emplace_back([this] { context.run(); });
  }

  ~Impl() {
    shared.finish();  // while there is a context to answer in
    context.stop();
    for (std::thread& thread : threads) thread.join();
  }

  // Accepts until the acceptor is closed. The last call of the handler sets `last_accept`: it may
  // hold a connection that was handed over before the close and waited for the strand meanwhile.
  void accept() {
    acceptor.async_accept(asio::make_strand(context), [this](error_code error, tcp::socket socket) {
      if (!error) start_connection(std::move(socket), shared);
      if (!acceptor.is_open()) return last_accept.set_value();
      if (error) {
        pause_timer.expires_after(kAcceptPause);
        pause_timer.async_wait([this](error_code) { accept(); });
        return;
      }
      accept();
    });
  }

  void sweep() {
    sweep_timer.expires_after(kSweepPeriod);
    sweep_timer.async_wait([this](error_code error) {
      if (error) return;
      shared.for_each(sweep_connection);
      sweep();
    });
  }

  // Takes what the system has accepted for us: closing would throw it away.
  void stop_accepting() {
    if (!acceptor.is_open()) return;
    error_code error;
    while (true) {
      tcp::socket socket(asio::make_strand(context));
      acceptor.accept(socket, error);
      if (error) break;
      start_connection(std::move(socket), shared);
    }
    acceptor.close(error);
    pause_timer.cancel();
  }

  HttpShared shared;
  asio::io_context context;
  asio::strand<asio::io_context::executor_type> strand;
  tcp::acceptor acceptor;
  asio::steady_timer sweep_timer;
  asio::steady_timer pause_timer;
  std::promise<void> last_accept;
  const std::shared_future<void> accept_ended = last_accept.get_future().share();
  uint16_t port = 0;
  std::vector<std::thread> threads;
};

HttpServer::HttpServer(const HttpOptions& options, Service& service)
    : impl_(std::make_unique<Impl>(options, service)) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return impl_->port; }

bool HttpServer::drain(std::chrono::milliseconds time) {
  asio::post(impl_->strand, [this] { impl_->stop_accepting(); });
  impl_->accept_ended.wait();
  impl_->shared.for_each(drain_connection);
  return impl_->shared.wait_until_empty(time);
}

}  // namespace serve
