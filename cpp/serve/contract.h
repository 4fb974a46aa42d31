// What a model takes and gives, in the protocol's words.
#ifndef AOT_SERVE_CONTRACT_H_
#define AOT_SERVE_CONTRACT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "aot/aot.hpp"
#include "datatype.h"

namespace serve {

struct Dim {
  int64_t size;  // -1: dynamic
  int64_t min;
  int64_t max;  // -1: unbounded
  int64_t multiple_of;
  std::string label;
};

struct TensorSpec {
  std::string name;
  const Datatype* type;
  std::vector<Dim> dims;
};

// Immutable, and shared by whoever still answers for a model that is gone.
struct Contract {
  std::string model;
  std::string version;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  bool has_state = false;
  bool changes_inputs = false;

  // Positions by name; the error lists the names that there are.
  size_t input(const std::string& name) const;
  size_t output(const std::string& name) const;
};

// Throws aot::Error for a type that the protocol has no name for.
Contract read_contract(const aot::Package& package, const std::string& model,
                       const std::string& version);

// The number of bytes of such a tensor; throws for negative sizes and overflow. `name` is for the
// message.
size_t tensor_bytes(const Datatype& type, const std::vector<int64_t>& shape,
                    const std::string& name);

}  // namespace serve

#endif  // AOT_SERVE_CONTRACT_H_
