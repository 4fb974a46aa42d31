#include "aot/aot.hpp"
#include "check.h"

extern "C" int open_nothing_from_c(void);
bool open_nothing_from_cpp();

namespace {

TEST(the_c_interface_works_from_c11) { CHECK(open_nothing_from_c() == 1); }
TEST(the_cpp_header_works_in_two_units) { CHECK(open_nothing_from_cpp()); }
TEST(versions) { CHECK_EQ(aot_abi_version(), AOT_ABI_VERSION); }

}  // namespace

TEST_MAIN
