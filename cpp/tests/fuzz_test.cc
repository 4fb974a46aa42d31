// Thousands of damaged packages, the same ones every time. `fuzz_test ROUNDS` does more.
#include <cstdlib>
#include <random>
#include <string>

#include "check.h"
#include "package_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

int g_rounds = 400;

void feed(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Damage done to a part of the file, by kind.
void damage(std::string* bytes, size_t begin, size_t end, std::mt19937* random) {
  const auto pick = [random](size_t low, size_t high) {
    return std::uniform_int_distribution<size_t>(low, high - 1)(*random);
  };
  const size_t at = pick(begin, end);
  switch (pick(0, 7)) {
    case 0:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << pick(0, 8)));
      break;
    case 1:
      (*bytes)[at] = static_cast<char>(pick(0, 256));
      break;
    case 2:
      bytes->resize(at);
      break;
    case 3:
      bytes->erase(at, pick(1, 9));
      break;
    case 4:
      bytes->insert(at, pick(1, 9), static_cast<char>(pick(0, 256)));
      break;
    case 5:
      (*bytes)[at] = "0123456789-[]{}\",:"[pick(0, 18)];
      break;
    default:
      bytes->replace(at, 1, std::to_string((*random)()));
      break;
  }
}

// A package with programs for two devices, and a call of a custom operator.
aot_test::Builder wide_package() {
  aot_test::Builder builder = aot_test::operator_package();
  aot_test::add_device_program(&builder, "tpu", "v1");
  return builder;
}

TEST(damaged_files) {
  const std::string good = wide_package().build();
  const size_t header = 8 + static_cast<uint8_t>(good[0]) + 256u * static_cast<uint8_t>(good[1]);
  const size_t interesting = header + wide_package().plan.dump().size();
  std::mt19937 random(1);
  for (int i = 0; i < g_rounds; ++i) {
    std::string bytes = good;
    damage(&bytes, 0, interesting, &random);
    feed(bytes);
  }
}

TEST(damaged_plans_in_whole_files) {
  std::mt19937 random(2);
  for (int i = 0; i < g_rounds; ++i) {
    const aot_test::Builder builder = wide_package();
    std::string plan = builder.plan.dump();
    for (int n = i % 3; n >= 0 && !plan.empty(); --n) damage(&plan, 0, plan.size(), &random);
    aot_test::Builder damaged = builder;
    damaged.plan = nullptr;
    std::string data;
    aot_test::json layout = damaged.layout(&data);
    // Lay the damaged text where the plan was: the first entry, grown to a multiple of 64.
    plan.resize((plan.size() + 63) / 64 * 64, ' ');
    const size_t shift = plan.size() - 64;
    for (auto& [name, row] : layout.items()) {
      if (name == "__metadata__" || name == "plan" || name == "pad/0") continue;
      for (auto& offset : row["data_offsets"]) offset = offset.get<size_t>() + shift;
    }
    layout.erase("pad/0");
    layout["plan"]["shape"] = {plan.size()};
    layout["plan"]["data_offsets"] = {0, plan.size()};
    feed(aot_test::assemble(layout.dump(), plan + data.substr(64)));
  }
}

TEST(every_truncation_of_the_front) {
  const std::string good = wide_package().build();
  for (size_t size = 0; size < 2048; size += 7) feed(good.substr(0, size));
  feed(good);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) g_rounds = std::atoi(argv[1]);
  return aot_test::run_all();
}
