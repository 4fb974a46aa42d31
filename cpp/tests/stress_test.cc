// The mixed load of a service, for as many turns as a test may take; `soak` does it for minutes.
// Run under the tsan preset too, for minutes with AOT_STRESS_TURNS=20000 of each thread.
#include <cstdlib>
#include <string>

#include "apart.h"
#include "check.h"
#include "cuda_package.h"
#include "mixed_load.h"

namespace {

void check(aot_test::LoadOptions options) {
  if (const char* turns = std::getenv("AOT_STRESS_TURNS")) options.turns = std::atoll(turns);
  const aot_test::LoadResult result = aot_test::run_load(options, nullptr);
  for (const std::string& text : result.first_wrong) aot_test::report(__FILE__, __LINE__, text);
  CHECK_EQ(result.wrong, 0);
  CHECK(result.counts.runs > 0);
  CHECK(result.counts.failed_as_told > 0);
  CHECK(result.counts.swaps > 0);
}

}  // namespace

TEST(threads_with_sessions_in_common) {
  aot_test::LoadOptions options;
  options.forks = false;
  check(options);
}

TEST(one_session_for_all) {
  aot_test::LoadOptions options;
  options.sessions = 2;
  options.threads = 8;
  options.turns = 100;
  options.forks = false;
  options.seed = 2;
  check(options);
}

// The thread sanitizer does not follow threads into children. The address sanitizer's own locks may
// be another thread's when it forks (GCC 12): up to one run in six never ended. Release runs this.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(forks_among_threads) {
  aot_test::LoadOptions options;
  options.seed = 3;
  check(options);
}
#endif

TEST(threads_on_a_gpu) {
  aot_test::LoadOptions options;
  options.device = "cuda";
  options.seed = 4;
  check(options);
  CHECK_EQ(std::string(aot_test::fake().misuse()), "");
  CHECK_EQ(aot_test::fake().live().device_blocks + aot_test::fake().live().graphs, 0);
}

TEST_MAIN_APART(400)
