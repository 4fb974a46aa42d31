// Packages in memory for tests: a plan as JSON, entries, and the test kernels.
#ifndef AOT_TESTS_PACKAGE_BUILDER_H_
#define AOT_TESTS_PACKAGE_BUILDER_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "aot/abi.h"
#include "mapped_file.h"

namespace aot_test {

using nlohmann::json;

// Bytes on a 64-byte boundary, as a mapping has them.
class AlignedBytes {
 public:
  explicit AlignedBytes(const std::string& bytes);
  ~AlignedBytes();
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;

  aot_rt::Bytes bytes() const { return {data_, size_}; }
  uint8_t* data() { return data_; }

 private:
  uint8_t* data_;
  size_t size_;
};

// A safetensors file from any header and data: the length, the padded header, the data.
std::string assemble(const std::string& header, const std::string& data);

// The kernel library that was built with the tests.
const std::string& kernel_binary();

struct Builder {
  json plan;
  json metadata = {{"format", "aot-package"}, {"format_version", "1.0"}};

  struct Entry {
    std::string name;
    std::string dtype;
    json shape;
    std::string bytes;
  };
  std::vector<Entry> entries;

  // The plan's program for the CPU.
  json& program() { return plan["programs"][0]; }

  // Adds an entry and its checksum.
  void add(const std::string& name, const std::string& dtype, const json& shape,
           const std::string& bytes);
  void add_floats(const std::string& name, const std::vector<float>& values);
  void add_library(const std::string& isa = "x86-64-v2");

  // The header and data of the file.
  json layout(std::string* data) const;
  std::string build() const;
};

// total[i] = Σ_j 2 · (x[i, j] + bias[j]) over `width` columns with bias[j] = j, and y, the
// summands; dim s0 ("batch") from 0 to `most` (0: unbounded), a multiple of `multiple`.
Builder small_package(int64_t width = 8, int64_t most = 64, int64_t multiple = 1);

// `small_package` whose bias is a state with the same first value, and whose input changes: for one
// row, a run leaves x + bias in both.
Builder state_package();

// `small_package` whose weights can be replaced: bias is derived, the sum of `base` (j in column j)
// and `shift` (0); `factor` is also called `tied`; `extra` is unused. `originals`: base and shift
// are in the package.
Builder swappable_package(bool originals, int64_t width = 8);

// `small_package` whose doubling is the custom operator "demo::scale", with an argument of every
// kind: x, factor (2), rows (s0), mode ("plain"), checked (true), axes ([0, 1]), bias (none).
Builder operator_package();

// y = table[index] of five values 10 … 14.
Builder gather_package();

// Adds a program for another device to `small_package`'s: one kernel with code of its own, which
// writes the output `y`. Nothing in these tests runs it.
void add_device_program(Builder* builder, const std::string& device, const std::string& arch);

// What the test kernels touch, in the order of their table. All variables are unbounded, the first
// is the work.
json test_declarations();

// Puts declarations behind the code of each library, and gives every launch, also of routines, the
// `values` that the test kernels need. The plan's format becomes 1.1. Call it once.
void declare(Builder* builder, const json& kernels = test_declarations());

// What is behind the code of an entry with these declarations.
std::string declarations(const json& kernels);

// A package opened from memory.
class Opened {
 public:
  explicit Opened(const Builder& builder);
  ~Opened();
  aot_package* get() const { return package_; }

 private:
  AlignedBytes bytes_;
  aot_package* package_ = nullptr;
};

}  // namespace aot_test

#endif  // AOT_TESTS_PACKAGE_BUILDER_H_
