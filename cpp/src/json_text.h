// Strict JSON: valid UTF-8, no duplicate keys; every mistake is a CORRUPT_PACKAGE that says where.
#ifndef AOT_SRC_JSON_TEXT_H_
#define AOT_SRC_JSON_TEXT_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "mapped_file.h"

namespace aot_rt {

// Whether the bytes are well-formed UTF-8 (no overlong forms, no surrogates).
bool is_utf8(Bytes bytes);

// The library's own end of a tree needs memory for what is nested in it, and ends the process where
// there is none: this one takes the tree apart first.
struct TakeApart {
  void operator()(nlohmann::json* tree) const noexcept;
};
using JsonPtr = std::unique_ptr<nlohmann::json, TakeApart>;

// Parses `bytes`; `what` names them in errors ("header", "plan").
JsonPtr parse_json(Bytes bytes, const char* what);

// A value with the way to it, so that an error can say "plan.steps[3].buffers[1]".
// Holds a pointer to its parent: keep every Field in a named variable.
class Field {
 public:
  Field(const nlohmann::json& value, const char* name) : value_(&value), key_(name) {}

  Field at(const char* key) const&;  // a required member of an object
  Field at(size_t index) const&;     // an element of an array; index < size()
  Field at(const char* key) const&& = delete;
  Field at(size_t index) const&& = delete;

  bool has(const char* key) const;  // the member is there and not null
  bool is_null() const;
  bool is_array() const;
  bool is_integer() const;
  bool is_string() const;

  // action(element) for each element of the array that is the required member `key`.
  template <typename Action>
  void each(const char* key, Action action) const& {
    const Field list = at(key);
    for (size_t i = 0; i < list.size(); ++i) {
      const Field item = list.at(i);
      action(item);
    }
  }

  size_t size() const;      // of an array
  int64_t integer() const;  // that fits in 64 bits
  int64_t integer_from(int64_t least) const;
  int32_t id(size_t count) const;  // 0 <= value < count
  bool boolean() const;
  double number() const;
  const std::string& text() const;
  const nlohmann::json& object() const;

  std::string path() const;
  [[noreturn]] void wrong(std::string_view problem) const;  // throws CORRUPT_PACKAGE

 private:
  Field(const nlohmann::json* value, const Field* parent, const char* key, size_t index)
      : value_(value), parent_(parent), key_(key), index_(index) {}

  const nlohmann::json* value_;
  const Field* parent_ = nullptr;
  const char* key_ = nullptr;  // nullptr: an element at index_
  size_t index_ = 0;
};

}  // namespace aot_rt

#endif  // AOT_SRC_JSON_TEXT_H_
