#include "http_connection.h"

#include <sys/socket.h>

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstring>

#include "v2_json.h"

namespace serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

namespace {

// Larger bodies are decoded by threads of their own.
constexpr size_t kLargeBody = 256 << 10;
// Bytes that are asked for at once: most requests are one call.
constexpr size_t kReceive = 16 << 10;
// Memory that a body takes while it is read: numbers as JSON are taken apart, tensors as they are.
constexpr size_t kJsonFactor = 16;
constexpr size_t kBinaryFactor = 2;
// For a request that was sent before the client could know that the server ends.
constexpr std::chrono::milliseconds kDrainGrace{500};
// For a client that still sends to read why it shall not.
constexpr std::chrono::seconds kLinger{2};

constexpr const char* kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr const char* kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    "Content-Type: application/json\r\nContent-Length: 63\r\n\r\n"
    "{\"error\":\"the server has as many connections as it may; later\"}";

// The headers that routes look at.
constexpr const char* kHeaders[] = {"inference-header-content-length", "content-encoding",
                                    "traceparent"};

}  // namespace

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, HttpShared& shared)
      : shared_(shared), socket_(std::move(socket)) {}
  ~Connection() {
    give_memory();
    shared_.leave(this);
  }

  void start() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);
    set_phase(Phase::kIdle, shared_.options.header_time);
    arm();
  }

  tcp::socket::executor_type executor() { return socket_.get_executor(); }

  // Before it starts: there are too many.
  void turn_away() {
    shared_.service.metrics().refused_connections->Increment();
    error_code ignored;
    socket_.non_blocking(true, ignored);
    socket_.send(asio::buffer(kTooMany, std::strlen(kTooMany)), 0, ignored);
    socket_.close(ignored);
  }

  // Any thread.
  void sweep() {
    if (Clock::now().time_since_epoch().count() < deadline_.load()) return;
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->expire(); });
  }
  void drain() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      self->draining_ = true;
      if (self->phase_ == Phase::kIdle) self->set_phase(Phase::kIdle, kDrainGrace);
    });
  }

 private:
  enum class Phase { kIdle, kHeader, kBody, kWork, kWrite, kLinger, kClosed };
  using Parser = http::request_parser<http::string_body>;

  template <typename Duration>
  void set_phase(Phase phase, Duration time) {
    phase_ = phase;
    deadline_ = (Clock::now() + time).time_since_epoch().count();
  }

  void set_phase(Phase phase) {
    phase_ = phase;
    deadline_ = kNever.time_since_epoch().count();
  }

  // Learns when the client sends, or goes.
  void arm() {
    if (waiting_) return;
    waiting_ = true;
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
      self->waiting_ = false;
      if (!error) self->on_readable();
    });
  }

  void on_readable() {
    if (phase_ == Phase::kIdle) return read_header();
    readable_ = true;  // the next request, or the end
    if (phase_ != Phase::kWork) return;
    const ssize_t got = peek();
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
    gone_ = true;
    pending_->cancel(aot::Error(AOT_CANCELLED, "the client has closed its connection"));
  }

  // What recv says of the next byte, which stays: 1, 0 at the end, or -1 and errno.
  ssize_t peek() {
    char byte;
    return ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  }

  void expire() {
    if (Clock::now().time_since_epoch().count() < deadline_.load()) return;
    // A request has come, and on_readable is about to run.
    if (phase_ == Phase::kIdle && peek() > 0) return;
    if (phase_ == Phase::kHeader || phase_ == Phase::kBody) {
      timed_out_ = true;
      error_code ignored;
      socket_.cancel(ignored);
      return;
    }
    close();
  }

  void read_header() {
    set_phase(Phase::kHeader, shared_.options.header_time);
    readable_ = false;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(shared_.options.max_header));
    parser_->body_limit(shared_.options.max_body);
    error_code error;
    if (buffer_.size() == 0) receive();
    parse(false, error);
    if (error) return refuse(error);
    if (parser_->is_header_done()) return on_header();
    http::async_read_header(socket_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, size_t) {
                              if (error) return self->refuse(error);
                              self->on_header();
                            });
  }

  // What has come already, without waiting. Its end and its errors are found by what reads next.
  void receive() {
    error_code ignored;
    buffer_.commit(socket_.read_some(buffer_.prepare(kReceive), ignored));
  }

  // Parses what has been received: the header, or `all` of the request.
  void parse(bool all, error_code& error) {
    parser_->eager(all);
    while (buffer_.size() > 0 && !(all ? parser_->is_done() : parser_->is_header_done())) {
      buffer_.consume(parser_->put(buffer_.data(), error));
      if (error == http::error::need_more) {
        error = {};
        return;
      }
      if (error) return;
    }
  }

  void on_header() {
    const auto& head = parser_->get();
    keep_alive_ = head.keep_alive();
    const bool binary = head.find("Inference-Header-Content-Length") != head.end();
    const bool unknown = parser_->chunked();
    const size_t body = unknown ? shared_.options.max_body : parser_->content_length().value_or(0);
    const size_t need = body * (binary ? kBinaryFactor : kJsonFactor);
    if (!shared_.take_memory(need)) {
      return fail(503, "the requests that are being read take all the memory that they may; later");
    }
    memory_ = need;
    const bool asks = beast::iequals(head[http::field::expect], "100-continue");
    if (!asks || parser_->is_done()) return read_body();
    asio::async_write(socket_, asio::buffer(kContinue, std::strlen(kContinue)),
                      [self = shared_from_this()](error_code error, size_t) {
                        error ? self->close() : self->read_body();
                      });
  }

  void read_body() {
    error_code error;
    parse(true, error);
    if (error) return refuse(error);
    if (parser_->is_done()) return on_request();
    set_phase(Phase::kBody, shared_.options.body_time);
    http::async_read(socket_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, size_t) {
                       if (error) return self->refuse(error);
                       self->on_request();
                     });
  }

  void on_request() {
    http::request<http::string_body> message = parser_->release();
    HttpRequest request;
    request.method = std::string(message.method_string());
    request.target = std::string(message.target());
    head_ = message.method() == http::verb::head;
    for (const char* name : kHeaders) {
      const auto found = message.find(name);
      if (found != message.end()) request.headers.emplace_back(name, found->value());
    }
    request.body = std::make_shared<const std::string>(std::move(message.body()));
    set_phase(Phase::kWork);
    pending_ = std::make_shared<Pending>();
    arm();
    Reply reply = [self = shared_from_this()](HttpReply answer) {
      asio::dispatch(self->socket_.get_executor(), [self, answer = std::move(answer)]() mutable {
        self->write(std::move(answer));
      });
    };
    const bool large = request.body->size() > kLargeBody;
    request.here = !large && shared_.lend_thread();
    const bool lent = request.here;
    auto work = [&shared = shared_, pending = pending_, request = std::move(request),
                 reply = std::move(reply)]() mutable {
      shared.routes.handle(std::move(request), pending, std::move(reply));
    };
    large ? asio::post(shared_.decoding, std::move(work)) : work();
    if (lent) shared_.take_thread_back();
  }

  // What stopped the reading of a request.
  void refuse(error_code error) {
    if (timed_out_) return fail(408, "the request took longer to arrive than it may");
    if (error == http::error::header_limit) return fail(431, "the header is too long");
    if (error == http::error::body_limit) {
      return fail(413,
                  "the body has more than " + std::to_string(shared_.options.max_body) + " bytes");
    }
    const bool malformed =
        error.category() == http::make_error_code(http::error::bad_method).category();
    if (malformed && error != http::error::end_of_stream && error != http::error::partial_message) {
      return fail(400, "this is no HTTP request: " + error.message());
    }
    close();
  }

  void fail(int status, const std::string& message) {
    shared_.service.metrics().bad_requests->Increment();
    HttpReply reply;
    reply.status = status;
    reply.body = error_body(message);
    if (status == 503) reply.headers.emplace_back("Retry-After", "1");
    keep_alive_ = false;
    write(std::move(reply));
  }

  void write(HttpReply reply) {
    pending_ = nullptr;
    if (phase_ == Phase::kClosed) return;
    if (gone_) return close();
    set_phase(Phase::kWrite, shared_.options.write_time);
    keep_alive_ = keep_alive_ && !draining_;
    response_.emplace();
    response_->version(11);
    response_->result(static_cast<unsigned>(reply.status));
    response_->set(http::field::content_type, reply.content_type);
    for (const auto& [name, value] : reply.headers) response_->set(name, value);
    response_->keep_alive(keep_alive_);
    const size_t length = reply.body.size();
    if (!head_) response_->body() = std::move(reply.body);
    response_->content_length(length);
    // Most answers go at once; the rest waits for a client that reads.
    serializer_.emplace(*response_);
    error_code error;
    http::write(socket_, *serializer_, error);
    if (!error) return on_written();
    if (error != asio::error::would_block) return close();
    http::async_write(socket_, *serializer_,
                      [self = shared_from_this()](error_code failed, size_t) {
                        failed ? self->close() : self->on_written();
                      });
  }

  void on_written() {
    serializer_.reset();
    response_.reset();
    give_memory();
    if (!keep_alive_) return linger();
    // Posted: requests that follow each other unasked do not make the stack deeper.
    if (readable_ || buffer_.size() > 0) {
      set_phase(Phase::kHeader, shared_.options.header_time);
      asio::post(socket_.get_executor(), [self = shared_from_this()] {
        if (self->phase_ == Phase::kHeader) self->read_header();
      });
      return;
    }
    if (draining_) {
      set_phase(Phase::kIdle, kDrainGrace);
    } else {
      set_phase(Phase::kIdle, shared_.options.idle_time);
    }
    arm();
  }

  // Closing with unread bytes would take the answer away from a client that still sends.
  void linger() {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    set_phase(Phase::kLinger, kLinger);
    discard();
  }

  void discard() {
    buffer_.clear();
    socket_.async_read_some(buffer_.prepare(16 << 10),
                            [self = shared_from_this()](error_code error, size_t) {
                              error ? self->close() : self->discard();
                            });
  }

  void close() {
    if (phase_ == Phase::kClosed) return;
    set_phase(Phase::kClosed);
    error_code ignored;
    socket_.close(ignored);
  }

  void give_memory() {
    shared_.give_memory(memory_);
    memory_ = 0;
  }

  HttpShared& shared_;
  tcp::socket socket_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::optional<http::response<http::string_body>> response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  std::shared_ptr<Pending> pending_;
  Phase phase_ = Phase::kIdle;
  std::atomic<Clock::rep> deadline_{kNever.time_since_epoch().count()};
  size_t memory_ = 0;
  bool waiting_ = false;   // for the socket to become readable
  bool readable_ = false;  // it has, while an answer was in the making
  bool keep_alive_ = true;
  bool head_ = false;  // HEAD: the answer has no body
  bool gone_ = false;  // the client
  bool draining_ = false;
  bool timed_out_ = false;
};

HttpShared::HttpShared(const HttpOptions& given, Service& served)
    : options(given),
      service(served),
      routes(served, [this](std::function<void()> work) { asio::post(control, std::move(work)); }),
      spare_threads_(given.threads - 1) {}

bool HttpShared::lend_thread() {
  if (--spare_threads_ >= 0) return true;
  ++spare_threads_;
  return false;
}

void HttpShared::finish() {
  decoding.join();
  control.join();
}

bool HttpShared::take_memory(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > options.max_memory - memory_) return false;
  memory_ += bytes;
  service.metrics().body_bytes->Set(static_cast<double>(memory_));
  return true;
}

void HttpShared::give_memory(size_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_ -= bytes;
  service.metrics().body_bytes->Set(static_cast<double>(memory_));
}

bool HttpShared::enter(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool room = connections_.size() < options.max_connections;
  // Also one that is refused: it leaves as all do.
  connections_[connection.get()] = connection;
  service.metrics().connections->Set(static_cast<double>(connections_.size()));
  return room;
}

void HttpShared::leave(Connection* connection) {
  const std::lock_guard<std::mutex> lock(mutex_);
  connections_.erase(connection);
  service.metrics().connections->Set(static_cast<double>(connections_.size()));
  changed_.notify_all();
}

void HttpShared::for_each(const std::function<void(Connection&)>& visit) {
  std::vector<std::shared_ptr<Connection>> all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, connection] : connections_) {
      if (auto held = connection.lock()) all.push_back(std::move(held));
    }
  }
  for (const auto& connection : all) visit(*connection);
}

bool HttpShared::wait_until_empty(std::chrono::milliseconds time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return connections_.empty(); });
}

void start_connection(tcp::socket socket, HttpShared& shared) {
  const auto connection = std::make_shared<Connection>(std::move(socket), shared);
  if (shared.enter(connection)) {
    asio::post(connection->executor(), [connection] { connection->start(); });
  } else {
    connection->turn_away();
  }
}

void sweep_connection(Connection& connection) { connection.sweep(); }
void drain_connection(Connection& connection) { connection.drain(); }

}  // namespace serve
