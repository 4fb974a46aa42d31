#include <aot/aot.hpp>
#include <cstdio>

int main(int argc, char** argv) {
  const auto package = aot::Package::open(argc > 1 ? argv[1] : "");
  if (package.ok()) return 1;
  std::printf("%s: %s\n", package.error().code_name(), package.error().what());
  return 0;
}
