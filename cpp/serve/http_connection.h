// One client's connection. Everything of it runs on its strand but what says otherwise.
#ifndef AOT_SERVE_HTTP_CONNECTION_H_
#define AOT_SERVE_HTTP_CONNECTION_H_

#include <atomic>
#include <boost/asio.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "http_server.h"
#include "routes.h"

namespace serve {

class Connection;

// What the connections of a server share. Safe to use from any thread.
class HttpShared {
 public:
  HttpShared(const HttpOptions& options, Service& service);

  // Waits for what is being decoded and loaded.
  void finish();

  const HttpOptions options;
  Service& service;
  boost::asio::thread_pool decoding{2};  // of bodies that would hold other connections up
  boost::asio::thread_pool control{1};   // loads and unloads
  Routes routes;

  // Lets a connection's thread be held for a short run; false where that would leave none that
  // reads.
  bool lend_thread();
  void take_thread_back() { ++spare_threads_; }

  // Sets memory aside; false where there is not so much.
  bool take_memory(size_t bytes);
  void give_memory(size_t bytes);

  // False where there are as many connections as may be.
  bool enter(const std::shared_ptr<Connection>& connection);
  void leave(Connection* connection);
  void for_each(const std::function<void(Connection&)>& visit);
  bool wait_until_empty(std::chrono::milliseconds time);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;
  size_t memory_ = 0;
  std::atomic<int> spare_threads_;
};

// Makes a connection of an accepted socket and starts it; refuses it where there are too many.
void start_connection(boost::asio::ip::tcp::socket socket, HttpShared& shared);
// Ends a connection whose time is over. From any thread.
void sweep_connection(Connection& connection);
// Lets it answer what it has been sent, and ends it. From any thread.
void drain_connection(Connection& connection);

}  // namespace serve

#endif  // AOT_SERVE_HTTP_CONNECTION_H_
