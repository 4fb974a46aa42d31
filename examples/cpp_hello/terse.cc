// Loads a package and runs it once: the whole program.
//   aot-package examples/01_mlp/model.py -o mlp.pkg && ./terse mlp.pkg
// The same with every step explained: explained.cc.
#include <cstdio>
#include <exception>
#include <vector>

#include "aot/aot.hpp"

int main(int argc, char** argv) try {
  const aot::Package package = aot::Package::open(argc > 1 ? argv[1] : "mlp.pkg").value();
  aot::Session session = aot::Session::create(package).value();

  const std::vector<float> x(8 * 64, 0.5F);
  const auto outputs = session.run({aot::Tensor::borrow(x.data(), {8, 64})}).value();

  const float* y = outputs[0].data<float>();
  for (int64_t i = 0; i < outputs[0].size(1); ++i) std::printf("%.4f ", y[i]);
  std::puts("");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
