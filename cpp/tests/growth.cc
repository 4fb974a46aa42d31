// How the time to open a package grows with its plan: of N entries, N buffers and N steps.
//   aot_growth [N…]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "package_builder.h"

namespace {

using aot_test::Builder;
using aot_test::json;

// y = (… ((x + b0) + b1) …) by turns in two temporaries, with a weight of its own for each step.
Builder chain(size_t count) {
  Builder b = aot_test::small_package();
  json& program = b.program();
  json& buffers = program["buffers"];
  const size_t other = buffers.size();
  buffers.push_back(buffers[3]);
  program["arena"].push_back({{"buffer", other}, {"above", {3}}});
  const json step = program["steps"][0];
  json steps = json::array();
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "weights/b" + std::to_string(i);
    b.add_floats(name, std::vector<float>(8, 1.0f));
    const size_t bias = buffers.size();
    buffers.push_back(buffers[1]);
    buffers[bias]["storage"]["entry"] = name;
    json next = step;
    const size_t from = i == 0 ? 0 : i % 2 == 1 ? 3 : other;
    next["buffers"] = {from, bias, i % 2 == 0 ? size_t{3} : other};
    steps.push_back(next);
  }
  const size_t last = count % 2 == 1 ? 3 : other;
  json scaled = program["steps"][1];
  scaled["buffers"] = {last, 2, 4};
  steps.push_back(scaled);
  steps.push_back(program["steps"][2]);
  program["steps"] = steps;
  aot_test::declare(&b);
  return b;
}

double open_once(const aot_test::AlignedBytes& bytes) {
  const auto start = std::chrono::steady_clock::now();
  aot_package* package = nullptr;
  aot_status* status =
      aot_package_open_memory(bytes.bytes().data, bytes.bytes().size, nullptr, &package);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (status != nullptr) {
    std::fprintf(stderr, "%s\n", aot_status_message(status));
    std::exit(1);
  }
  aot_package_free(package);
  return spent.count();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<size_t> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::strtoull(argv[i], nullptr, 10));
  if (counts.empty()) counts = {1000, 4000, 16000, 64000};
  for (const size_t count : counts) {
    const aot_test::AlignedBytes bytes(chain(count).build());
    double best = open_once(bytes);
    for (int i = 0; i < 4; ++i) best = std::min(best, open_once(bytes));
    std::printf("%zu steps and entries, %zu bytes: %.2f ms, %.2f us each\n", count,
                bytes.bytes().size, best * 1e3, best * 1e6 / static_cast<double>(count));
  }
}
