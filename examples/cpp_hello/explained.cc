// The program of terse.cc, for any package, with every step explained.
//   ./explained model.pkg [SIZE]      SIZE: value for every dynamic dimension (default 8)
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// One header. It includes the C interface (aot/abi.h) and nothing else of the runtime, so a program
// built today runs with a later runtime library of the same major version.
#include "aot/aot.hpp"

namespace {

// Every fallible call returns a Result: a value or an Error. This program tests each one; terse.cc
// calls value() instead, which throws the Error.
int fail(const aot::Error& error) {
  // The message says what came, what was allowed and what to do; the origin is the line of the
  // model that a failing kernel was made from, for example "model.py:12 aten.embedding.default".
  std::fprintf(stderr, "%s: %s\n", error.code_name(), error.what());
  if (!error.origin().empty()) std::fprintf(stderr, "  at %s\n", error.origin().c_str());
  return 1;
}

// A size that the dimension's contract allows, as near to `wanted` as it can be.
int64_t choose_size(const aot_dim_info& dim, int64_t wanted) {
  if (dim.size >= 0) return dim.size;  // not dynamic
  int64_t size = std::max(wanted, dim.min);
  if (dim.max >= 0) size = std::min(size, dim.max);
  return std::max(dim.min, size - size % dim.multiple_of);
}

// Prints "float32[batch, 64]".
void print_type(const char* what, const aot_tensor_info& info) {
  std::printf("%s %s: %s[", what, info.name, info.dtype_name);
  for (int32_t i = 0; i < info.ndim; ++i) {
    std::printf("%s%s", i == 0 ? "" : ", ", info.dims[i].label);
  }
  std::puts("]");
}

// Memory for one input. The runtime borrows it; the program owns it.
struct Input {
  std::vector<int64_t> shape;
  std::vector<unsigned char> bytes;
  DLDataType dtype;
};

// Zeros of the right type and size: legal for every model, indices included.
Input make_input(const aot_tensor_info& info, int64_t wanted) {
  Input input{{}, {}, info.dtype};
  int64_t elements = 1;
  for (int32_t i = 0; i < info.ndim; ++i) {
    input.shape.push_back(choose_size(info.dims[i], wanted));
    elements *= input.shape.back();
  }
  input.bytes.resize(static_cast<size_t>(elements) * info.dtype.bits / 8);
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s model.pkg [SIZE]\n", argv[0]);
    return 2;
  }
  const int64_t wanted = argc > 2 ? std::strtoll(argv[2], nullptr, 10) : 8;
  const auto start = std::chrono::steady_clock::now();

  // 1. Open: the file is mapped and its plan checked. Weights are not read yet; the system brings
  // them in when a kernel touches them, once for all processes that run this package.
  aot::Result<aot::Package> package = aot::Package::open(argv[1]);
  if (!package) return fail(package.error());

  // The contract is in the package: names, types, and the range of each dynamic size.
  for (size_t i = 0; i < package.value().input_count(); ++i) {
    print_type("input", package.value().input(i));
  }
  for (size_t i = 0; i < package.value().output_count(); ++i) {
    print_type("output", package.value().output(i));
  }

  // 2. A session: chooses the kernels for this CPU, loads them from memory (no file is written) and
  // owns the scratch memory. A package may be shared by many sessions; they run at the same time.
  aot::SessionOptions options;
  options.num_threads = 0;  // as many as there are physical cores; 1 keeps to the calling thread
  aot::Result<aot::Session> session = aot::Session::create(package.value(), options);
  if (!session) return fail(session.error());
  const std::chrono::duration<double, std::milli> loaded = std::chrono::steady_clock::now() - start;
  std::printf("loaded in %.2f ms: kernels for %s, %d threads\n", loaded.count(),
              session.value().isa(), session.value().num_threads());

  // 3. Inputs: any memory will do. borrow() makes no copy, so the memory must outlive the call.
  std::vector<Input> memory;
  for (size_t i = 0; i < package.value().input_count(); ++i) {
    memory.push_back(make_input(package.value().input(i), wanted));
  }
  std::vector<aot::Tensor> inputs;
  for (const Input& input : memory) {
    inputs.push_back(aot::Tensor::borrow(input.bytes.data(), input.dtype, input.shape, {}));
  }

  // 4. Run. The first run for new sizes resolves them; later ones reuse that. Inputs are checked
  // against the contract every time: a wrong one is an Error, and the session stays usable.
  const auto begin = std::chrono::steady_clock::now();
  aot::Result<std::vector<aot::Tensor>> outputs = session.value().run(inputs);
  if (!outputs) return fail(outputs.error());
  const std::chrono::duration<double, std::micro> ran = std::chrono::steady_clock::now() - begin;

  // 5. Outputs own their memory; it goes back to the session's pool when they are destroyed, and
  // stays valid even when the session is gone. They are DLPack tensors: release() hands one to
  // any library that speaks DLPack.
  for (size_t i = 0; i < outputs.value().size(); ++i) {
    const aot::Tensor& output = outputs.value()[i];
    std::printf("output %zu: %" PRId64 " elements", i, output.elements());
    if (const float* y = output.data<float>(); y != nullptr && output.elements() > 0) {
      std::printf(", the first is %g", static_cast<double>(y[0]));
    }
    std::puts("");
  }
  std::printf("first run in %.1f us\n", ran.count());
  return 0;
}
