// Any text as the plan of a package whose kernels declare what they touch, with its hash right:
// opened, bound for a few sizes and, where it is that good, run.
#include <cstdint>
#include <string>

#include "hostile/mutate.h"
#include "hostile/run.h"
#include "package_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const aot_test::Builder good = [] {
    aot_test::Builder builder = aot_test::swappable_package(true);
    aot_test::declare(&builder);
    return builder;
  }();
  aot_test::Builder builder = good;
  builder.plan = aot_test::json::parse(data, data + size, nullptr, false);
  if (!builder.plan.is_object()) return 0;
  aot_hostile::Random random(size);
  const std::string file = aot_hostile::put_together(&builder);
  aot_hostile::open_and_run(file, builder.plan, "cpu", &random);
  return 0;
}
