// Arrays of numbers between JSON and memory.
#ifndef AOT_SERVE_JSON_NUMBERS_H_
#define AOT_SERVE_JSON_NUMBERS_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "aot/aot.hpp"
#include "contract.h"

namespace serve {

// The elements of `data`, flat or nested, in memory of their type, C-contiguous. Throws aot::Error
// where their number is not the shape's, or one of them is none of that type.
std::shared_ptr<std::vector<char>> read_numbers(const nlohmann::json& data, const Datatype& type,
                                                const std::vector<int64_t>& shape,
                                                const std::string& name);

// Appends "[1,2.5,…]". Throws aot::Error for a number that JSON does not have.
void append_numbers(std::string& text, const Datatype& type, const void* data, size_t count,
                    const std::string& name);

}  // namespace serve

#endif  // AOT_SERVE_JSON_NUMBERS_H_
