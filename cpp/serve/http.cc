#include "http.h"

#include "v2_json.h"

namespace serve {
namespace {

struct Status {
  aot_code code;
  int http;
};

constexpr Status kStatuses[] = {
    {AOT_OK, 200},          {AOT_INVALID_ARGUMENT, 400},  {AOT_SHAPE_MISMATCH, 400},
    {AOT_NOT_FOUND, 404},   {AOT_CORRUPT_PACKAGE, 422},   {AOT_INCOMPATIBLE, 422},
    {AOT_UNAVAILABLE, 503}, {AOT_OUT_OF_MEMORY, 503},     {AOT_DEVICE_ERROR, 500},
    {AOT_UNSUPPORTED, 400}, {AOT_INTERNAL, 500},          {AOT_OPERATOR_FAILED, 500},
    {AOT_CANCELLED, 499},   {AOT_DEADLINE_EXCEEDED, 504}, {AOT_LIMIT_EXCEEDED, 413},
    {AOT_REFUSED, 403}};

}  // namespace

const std::string& HttpRequest::header(const char* name) const {
  static const std::string none;
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return none;
}

int http_status(aot_code code) {
  for (const Status& status : kStatuses) {
    if (status.code == code) return status.http;
  }
  return 500;
}

HttpReply error_reply(const aot::Error& error) {
  HttpReply reply;
  reply.status = http_status(error.code());
  reply.body = error_body(error.what());
  if (reply.status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

}  // namespace serve
