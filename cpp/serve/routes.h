// What is behind each path of HTTP.
#ifndef AOT_SERVE_ROUTES_H_
#define AOT_SERVE_ROUTES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "http.h"
#include "service.h"

namespace serve {

using Reply = std::function<void(HttpReply)>;

class Routes {
 public:
  // `later` runs what may take long (loading a model) where it holds nobody up.
  using Later = std::function<void(std::function<void()>)>;
  Routes(Service& service, Later later) : service_(service), later_(std::move(later)) {}

  // Answers once, from any thread, by `reply`. What can be cancelled is in `pending`.
  void handle(HttpRequest request, const std::shared_ptr<Pending>& pending, Reply reply);

 private:
  using Parts = std::vector<std::string>;

  void route(const HttpRequest& request, const std::shared_ptr<Pending>& pending,
             const Reply& reply);
  void get(const Parts& parts, const Reply& reply);
  void model(const HttpRequest& request, const Parts& parts,
             const std::shared_ptr<Pending>& pending, const Reply& reply);
  void describe(const std::string& name, const std::string& version, const std::string& what,
                const Reply& reply);
  void infer(const HttpRequest& request, const std::string& name, const std::string& version,
             const std::shared_ptr<Pending>& pending, const Reply& reply);
  void repository(const HttpRequest& request, const Parts& parts, const Reply& reply);

  Service& service_;
  Later later_;
};

}  // namespace serve

#endif  // AOT_SERVE_ROUTES_H_
