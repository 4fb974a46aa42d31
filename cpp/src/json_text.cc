#include "json_text.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "error.h"

namespace aot_rt {
namespace {

using nlohmann::json;

// Length of the well-formed sequence at p, or 0.
size_t utf8_sequence(const uint8_t* p, size_t left) {
  const uint8_t lead = p[0];
  if (lead < 0x80) return 1;
  size_t length = 0;
  uint8_t low = 0x80;   // bounds of the second byte: they exclude overlong forms, surrogates
  uint8_t high = 0xbf;  // and values above U+10FFFF
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  }
  if (length == 0 || length > left || p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((p[i] & 0xc0) != 0x80) return 0;
  }
  return length;
}

constexpr size_t kMaxDepth = 256;  // of lists and objects inside of each other

// Builds the values in one pass, and refuses a key that its object already has: JSON itself leaves
// that open, and the library's own way to ask about keys walks over an object or list again for
// each of its members.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const char* what) : what_(what), root_(new json) {}

  JsonPtr take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool start_object(std::size_t /*members*/) override { return open(json::object()); }
  bool start_array(std::size_t /*items*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& members = open_.back()->get_ref<json::object_t&>();
    const auto [place, added] = members.emplace(std::move(name), nullptr);
    if (!added) fail(AOT_CORRUPT_PACKAGE, what_, ": duplicate key '", place->first, "'");
    member_ = &place->second;
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    std::string_view text = error.what();
    const size_t prefix = text.find("] ");  // "[json.exception.parse_error.101] parse error…"
    if (prefix != std::string_view::npos) text.remove_prefix(prefix + 2);
    fail(AOT_CORRUPT_PACKAGE, what_, ": not valid JSON: ", text);
  }

 private:
  // Where the value that comes next belongs. An open list's last item stays where it is until it is
  // closed, so pointers to it hold.
  json* place(json&& value) {
    if (open_.empty()) {
      *root_ = std::move(value);
      return root_.get();
    }
    if (open_.back()->is_object()) {
      *member_ = std::move(value);
      return member_;
    }
    auto& items = open_.back()->get_ref<json::array_t&>();
    items.push_back(std::move(value));
    return &items.back();
  }

  template <typename Value>
  bool put(Value&& value) {
    place(json(std::forward<Value>(value)));
    return true;
  }

  bool open(json&& value) {
    if (open_.size() >= kMaxDepth) fail(AOT_CORRUPT_PACKAGE, what_, ": nested too deeply");
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const char* what_;
  JsonPtr root_;
  std::vector<json*> open_;  // objects and lists that the text is in
  json* member_ = nullptr;   // of the innermost object: what its last key names
};

}  // namespace

bool is_utf8(Bytes bytes) {
  for (size_t i = 0; i < bytes.size;) {
    const size_t length = utf8_sequence(bytes.data + i, bytes.size - i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

// No deeper than kMaxDepth.
void TakeApart::operator()(json* tree) const noexcept {
  const auto empty = [](json& value, const auto& self) -> void {
    if (auto* items = value.get_ptr<json::array_t*>()) {
      for (; !items->empty(); items->pop_back()) self(items->back(), self);
    } else if (auto* members = value.get_ptr<json::object_t*>()) {
      for (; !members->empty(); members->erase(members->begin())) {
        self(members->begin()->second, self);
      }
    }
  };
  empty(*tree, empty);
  delete tree;
}

JsonPtr parse_json(Bytes bytes, const char* what) {
  if (!is_utf8(bytes)) fail(AOT_CORRUPT_PACKAGE, what, ": not valid UTF-8");
  Builder builder(what);
  json::sax_parse(bytes.data, bytes.data + bytes.size, &builder);
  return builder.take();
}

Field Field::at(const char* key) const& {
  const json& members = object();
  const auto found = members.find(key);
  if (found == members.end()) wrong(cat("has no member '", key, "'"));
  return Field(&*found, this, key, 0);
}

Field Field::at(size_t index) const& { return Field(&(*value_)[index], this, nullptr, index); }

bool Field::has(const char* key) const {
  const json& members = object();
  const auto found = members.find(key);
  return found != members.end() && !found->is_null();
}

bool Field::is_null() const { return value_->is_null(); }
bool Field::is_array() const { return value_->is_array(); }
bool Field::is_integer() const { return value_->is_number_integer(); }
bool Field::is_string() const { return value_->is_string(); }

size_t Field::size() const {
  if (!value_->is_array()) wrong("must be an array");
  return value_->size();
}

int64_t Field::integer() const {
  if (!value_->is_number_integer()) wrong("must be an integer");
  if (value_->is_number_unsigned()) {
    const auto value = value_->get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      wrong("does not fit in 64 bits");
    }
  }
  return value_->get<int64_t>();
}

int64_t Field::integer_from(int64_t least) const {
  const int64_t value = integer();
  if (value < least) wrong(cat("is ", value, ", must be at least ", least));
  return value;
}

int32_t Field::id(size_t count) const {
  const int64_t value = integer();
  if (value < 0 || static_cast<uint64_t>(value) >= count) {
    wrong(cat("is ", value, ", but there are ", count));
  }
  return static_cast<int32_t>(value);
}

bool Field::boolean() const {
  if (!value_->is_boolean()) wrong("must be true or false");
  return value_->get<bool>();
}

double Field::number() const {
  if (!value_->is_number()) wrong("must be a number");
  return value_->get<double>();
}

const std::string& Field::text() const {
  if (!value_->is_string()) wrong("must be a string");
  return value_->get_ref<const std::string&>();
}

const json& Field::object() const {
  if (!value_->is_object()) wrong("must be an object");
  return *value_;
}

std::string Field::path() const {
  if (parent_ == nullptr) return key_;
  std::string text = parent_->path();
  return key_ != nullptr ? cat(text, ".", key_) : cat(text, "[", index_, "]");
}

void Field::wrong(std::string_view problem) const {
  fail(AOT_CORRUPT_PACKAGE, path(), " ", problem);
}

}  // namespace aot_rt
