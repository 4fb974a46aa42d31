#include "status.h"

namespace {

// Handed out when even a status cannot be allocated; never freed.
aot_status g_out_of_memory{AOT_OUT_OF_MEMORY, {}, {}};

struct CodeName {
  aot_code code;
  const char* name;
};

constexpr CodeName kNames[] = {
    {AOT_OK, "OK"},
    {AOT_INVALID_ARGUMENT, "INVALID_ARGUMENT"},
    {AOT_SHAPE_MISMATCH, "SHAPE_MISMATCH"},
    {AOT_NOT_FOUND, "NOT_FOUND"},
    {AOT_CORRUPT_PACKAGE, "CORRUPT_PACKAGE"},
    {AOT_INCOMPATIBLE, "INCOMPATIBLE"},
    {AOT_UNAVAILABLE, "UNAVAILABLE"},
    {AOT_OUT_OF_MEMORY, "OUT_OF_MEMORY"},
    {AOT_DEVICE_ERROR, "DEVICE_ERROR"},
    {AOT_UNSUPPORTED, "UNSUPPORTED"},
    {AOT_INTERNAL, "INTERNAL"},
    {AOT_OPERATOR_FAILED, "OPERATOR_FAILED"},
    {AOT_CANCELLED, "CANCELLED"},
    {AOT_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"},
    {AOT_LIMIT_EXCEEDED, "LIMIT_EXCEEDED"},
    {AOT_REFUSED, "REFUSED"},
};

}  // namespace

namespace aot_rt {

aot_status* make_status(aot_code code, const char* message, const std::string& origin) noexcept {
  try {
    return new aot_status{code, message, origin};
  } catch (const std::bad_alloc&) {
    return &g_out_of_memory;
  }
}

}  // namespace aot_rt

aot_code aot_status_code(const aot_status* status) {
  return status == nullptr ? AOT_OK : status->code;
}

const char* aot_status_message(const aot_status* status) {
  if (status == nullptr) return "";
  return status == &g_out_of_memory ? "out of memory" : status->message.c_str();
}

const char* aot_status_origin(const aot_status* status) {
  return status == nullptr ? "" : status->origin.c_str();
}

void aot_status_free(aot_status* status) {
  if (status != &g_out_of_memory) delete status;
}

const char* aot_code_name(aot_code code) {
  for (const CodeName& row : kNames) {
    if (row.code == code) return row.name;
  }
  return "UNKNOWN";
}
