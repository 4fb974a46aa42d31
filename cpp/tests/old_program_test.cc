// A program of the last release's headers with this library. Includes nothing of aot.hpp, of which
// one program can have one version.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "check.h"
#include "package_builder.h"

std::string run_program_1_0(const char* path);

namespace {

TEST(a_program_of_release_1_0_runs) {
  char path[] = "/tmp/aot_old_program_XXXXXX";
  const int fd = ::mkstemp(path);
  CHECK(fd >= 0);
  ::close(fd);
  std::ofstream(path, std::ios::binary) << aot_test::small_package().build();
  CHECK_EQ(run_program_1_0(path), "");
  ::unlink(path);
}

}  // namespace

TEST_MAIN
