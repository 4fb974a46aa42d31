// The protocol's names of element types.
#ifndef AOT_SERVE_DATATYPE_H_
#define AOT_SERVE_DATATYPE_H_

#include <string>
#include <string_view>

#include "aot/aot.hpp"

namespace serve {

struct Datatype {
  const char* name;  // "FP32"
  DLDataType dtype;
  bool json;  // false: numbers of this type travel as bytes alone, as the protocol says

  size_t size() const { return dtype.bits / 8; }
};

// The type of that name, or nullptr. BYTES is none: packages have no strings.
const Datatype* find_datatype(std::string_view name);
// The protocol's type for an element type of a package, or nullptr.
const Datatype* find_datatype(DLDataType dtype);

}  // namespace serve

#endif  // AOT_SERVE_DATATYPE_H_
