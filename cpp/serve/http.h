// Requests and replies of HTTP, apart from the connection that carries them.
#ifndef AOT_SERVE_HTTP_H_
#define AOT_SERVE_HTTP_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aot/aot.hpp"
#include "service.h"

namespace serve {

struct HttpRequest {
  std::string method;
  std::string target;  // as it came, with what stands behind '?'
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::shared_ptr<const std::string> body;
  bool here = false;  // the thread that handles it may be held for a short run

  // The first value of a header, or "".
  const std::string& header(const char* name) const;
};

struct HttpReply {
  int status = 200;
  std::string body;
  const char* content_type = "application/json";
  std::vector<std::pair<const char*, std::string>> headers;
};

// Statuses and replies for the codes of errors.
int http_status(aot_code code);
HttpReply error_reply(const aot::Error& error);

}  // namespace serve

#endif  // AOT_SERVE_HTTP_H_
