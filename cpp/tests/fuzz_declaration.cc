// Any bytes as the declarations behind a library's code, and as a cubin.
#include <cstdint>
#include <string>

#include "error.h"
#include "package_builder.h"
#include "plan.h"
#include "verify/cubin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const aot_test::Builder good = [] {
    aot_test::Builder builder = aot_test::small_package();
    aot_test::declare(&builder);
    return builder;
  }();
  aot_test::Builder builder = good;
  for (aot_test::Builder::Entry& entry : builder.entries) {
    if (entry.name.rfind("kernels/", 0) != 0) continue;
    std::string text(reinterpret_cast<const char*>(data), size);
    for (size_t i = 0; i < 8; ++i) text += static_cast<char>(size >> (8 * i));
    entry.bytes = "code" + text + "AOTDECL1";
    entry.shape = {entry.bytes.size()};
  }
  const aot_test::AlignedBytes bytes(builder.build());
  try {
    aot_rt::Plan::parse(aot_rt::Container::read(bytes.bytes()));
  } catch (const aot_rt::Error&) {
  }
  try {
    aot_rt::check_cubin({data, size}, "sm_90", "fuzzed");
  } catch (const aot_rt::Error&) {
  }
  return 0;
}
