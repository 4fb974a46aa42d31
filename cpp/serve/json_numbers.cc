#include "json_numbers.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace serve {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw aot::Error(AOT_INVALID_ARGUMENT, "input '" + name + "': " + what);
}

// Calls visit.operator()<T>() with the C++ type of a type that JSON has.
template <typename Visit>
void with_type(const Datatype& type, Visit visit) {
  switch (type.dtype.code) {
    case kDLBool:
      return visit(bool{});
    case kDLFloat:
      return type.dtype.bits == 64 ? visit(double{}) : visit(float{});
    case kDLInt:
      return type.dtype.bits == 8    ? visit(int8_t{})
             : type.dtype.bits == 16 ? visit(int16_t{})
             : type.dtype.bits == 32 ? visit(int32_t{})
                                     : visit(int64_t{});
    default:
      return type.dtype.bits == 8    ? visit(uint8_t{})
             : type.dtype.bits == 16 ? visit(uint16_t{})
             : type.dtype.bits == 32 ? visit(uint32_t{})
                                     : visit(uint64_t{});
  }
}

// True and the value, if it is one of T.
template <typename T>
bool convert(const json& value, T& to) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return false;
    to = value.get<bool>();
    return true;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!value.is_number()) return false;
    to = value.get<T>();
    return true;
  } else {
    if (value.is_number_unsigned()) {
      const auto number = value.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<T>::max())) return false;
      to = static_cast<T>(number);
      return true;
    }
    if (!value.is_number_integer()) return false;
    const auto number = value.get<int64_t>();
    if (number < static_cast<int64_t>(std::numeric_limits<T>::min()) || std::is_unsigned_v<T>) {
      return false;
    }
    to = static_cast<T>(number);
    return true;
  }
}

template <typename T>
class Reader {
 public:
  Reader(const Datatype& type, const std::string& name, std::vector<char>& to)
      : type_(type), name_(name), to_(to) {}

  void read(const json& data) {
    for (const json& value : data) {
      if (value.is_array()) {
        read(value);
        continue;
      }
      T number;
      if (!convert(value, number)) {
        fail(name_, "element " + std::to_string(count_) + " is " +
                        value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 40) +
                        ", which is no " + type_.name);
      }
      std::memcpy(to_.data() + count_ * sizeof(T), &number, sizeof(T));
      ++count_;
    }
  }

 private:
  const Datatype& type_;
  const std::string& name_;
  std::vector<char>& to_;
  size_t count_ = 0;
};

// The number of elements of arrays that are nested no deeper than the shape.
size_t count_elements(const json& data, size_t depth, const std::string& name) {
  size_t count = 0;
  for (const json& value : data) {
    if (!value.is_array()) {
      ++count;
    } else if (depth <= 1) {
      fail(name, "data is nested deeper than its shape");
    } else {
      count += count_elements(value, depth - 1, name);
    }
  }
  return count;
}

}  // namespace

std::shared_ptr<std::vector<char>> read_numbers(const json& data, const Datatype& type,
                                                const std::vector<int64_t>& shape,
                                                const std::string& name) {
  if (!data.is_array()) fail(name, "data must be an array of numbers");
  if (!type.json) {
    fail(name,
         std::string(type.name) + " has no numbers in JSON: send its bytes, with binary_data_size");
  }
  const size_t bytes = tensor_bytes(type, shape, name);
  auto numbers = std::make_shared<std::vector<char>>();
  with_type(type, [&](auto like) {
    using T = decltype(like);
    // Memory for a shape that the data does not fill would be the client's to choose.
    const size_t given = count_elements(data, shape.size(), name);
    if (given != bytes / sizeof(T)) {
      fail(name, "the shape has " + std::to_string(bytes / sizeof(T)) + " elements, data has " +
                     std::to_string(given));
    }
    numbers->resize(bytes);
    Reader<T> reader(type, name, *numbers);
    reader.read(data);
  });
  return numbers;
}

void append_numbers(std::string& text, const Datatype& type, const void* data, size_t count,
                    const std::string& name) {
  if (!type.json) {
    throw aot::Error(AOT_INVALID_ARGUMENT, "output '" + name + "' is " + type.name +
                                               ", which has no numbers in JSON: ask for it with "
                                               "binary_data");
  }
  text.push_back('[');
  with_type(type, [&](auto like) {
    using T = decltype(like);
    char digits[32];
    for (size_t i = 0; i < count; ++i) {
      if (i != 0) text.push_back(',');
      T value;
      std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
      if constexpr (std::is_same_v<T, bool>) {
        text += value ? "true" : "false";
      } else {
        if constexpr (std::is_floating_point_v<T>) {
          if (!std::isfinite(value)) {
            throw aot::Error(AOT_INVALID_ARGUMENT,
                             "output '" + name + "': element " + std::to_string(i) + " is " +
                                 (std::isnan(value) ? "not a number" : "infinite") +
                                 ", which JSON cannot say: ask for it with binary_data");
          }
        }
        const auto end = std::to_chars(digits, digits + sizeof(digits), value);
        text.append(digits, end.ptr);
      }
    }
  });
  text.push_back(']');
}

}  // namespace serve
