#include "aot/aot.hpp"
#include "check.h"

extern "C" int open_nothing_from_c(void);
bool open_nothing_from_cpp();

namespace {

// std::complex is an element type: its memory is a pair of reals, as DLPack says.
static_assert(aot::dtype_of<std::complex<float>>().code == kDLComplex);
static_assert(aot::dtype_of<std::complex<float>>().bits == 64);
static_assert(aot::dtype_of<const std::complex<double>>().bits == 128);

TEST(the_c_interface_works_from_c11) { CHECK(open_nothing_from_c() == 1); }
TEST(the_cpp_header_works_in_two_units) { CHECK(open_nothing_from_cpp()); }
TEST(versions) { CHECK_EQ(aot_abi_version(), AOT_ABI_VERSION); }

}  // namespace

TEST_MAIN
