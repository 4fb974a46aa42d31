// A second translation unit with the C++ header: it must not define anything twice.
#include "aot/aot.hpp"

bool open_nothing_from_cpp();

bool open_nothing_from_cpp() {
  const auto package = aot::Package::open("/no/such/file.pkg");
  return !package.ok() && package.error().code() == AOT_NOT_FOUND;
}
