// Weights replaced while the package is in use: values, what is refused, threads.
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "half.h"
#include "package_builder.h"

namespace {

using aot_test::Builder;
using aot_test::json;
using aot_test::swappable_package;

constexpr int64_t kWidth = 8;
constexpr int64_t kRows = 3;

std::vector<float> filled(float value) { return std::vector<float>(kWidth, value); }

aot::Tensor borrow(const std::vector<float>& values) {
  return aot::Tensor::borrow(values.data(), {static_cast<int64_t>(values.size())});
}

void check(const aot::Result<aot::Done>& result) {
  if (!result.ok()) throw aot_rt::Error(result.error().code(), result.error().what());
}

// A file that is gone with this; what maps it before may use it longer.
class File {
 public:
  explicit File(const std::string& content) {
    const int descriptor = mkstemp(path_.data());
    CHECK(descriptor >= 0);
    close(descriptor);
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/aot_weights_XXXXXX";
};

// A package and sessions on it.
class Running {
 public:
  explicit Running(const Builder& builder) {
    const File file(builder.build());
    auto opened = aot::Package::open(file.path());
    if (!opened.ok()) throw aot_rt::Error(opened.error().code(), opened.error().what());
    package_ = std::make_unique<aot::Package>(std::move(opened).value());
  }

  aot::Package& package() { return *package_; }

  aot::Session session() {
    aot::SessionOptions options;
    options.num_threads = 1;
    auto made = aot::Session::create(*package_, options);
    if (!made.ok()) throw aot_rt::Error(made.error().code(), made.error().what());
    return std::move(made).value();
  }

  // base, shift and factor, all filled.
  void replace(float base, float shift, float factor) {
    const std::vector<float> bases = filled(base);
    const std::vector<float> shifts = filled(shift);
    const aot::Tensor tensors[] = {borrow(bases), borrow(shifts),
                                   aot::Tensor::borrow(&factor, {1})};
    check(package_->replace_weights({{"base", &tensors[0].view()},
                                     {"shift", &tensors[1].view()},
                                     {"factor", &tensors[2].view()}}));
  }

  void replace_one(const char* name, const std::vector<float>& values,
                   aot::ReplaceOptions options = {true}) {
    const aot::Tensor tensor = borrow(values);
    check(package_->replace_weights({{name, &tensor.view()}}, options));
  }

 private:
  std::unique_ptr<aot::Package> package_;
};

// The factor times (x + bias) for x = 1: all elements of a run, which must be equal but for `step`
// times the column; NaN if they are not.
float run(aot::Session* session, float step = 0) {
  const std::vector<float> x(kRows * kWidth, 1.0f);
  auto outputs = session->run({aot::Tensor::borrow(x.data(), {kRows, kWidth})});
  if (!outputs.ok()) throw aot_rt::Error(outputs.error().code(), outputs.error().what());
  const float* y = outputs.value()[0].data<float>();
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    if (y[i] != y[0] + step * static_cast<float>(i % kWidth)) return NAN;
  }
  return y[0];
}

// A safetensors file of float32 vectors, as other programs write it: nothing is aligned.
std::string tensors_file(const std::vector<std::pair<std::string, std::vector<float>>>& tensors) {
  json header;
  std::string data;
  for (const auto& [name, values] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header[name] = {
        {"dtype", "F32"}, {"shape", {values.size()}}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(text.size() >> (8 * i));
  return file + text + data;
}

}  // namespace

TEST(every_session_sees_new_weights) {
  Running running(swappable_package(false));
  aot::Session first = running.session();
  CHECK_EQ(run(&first, 2), 2.0f);  // 2 * (1 + column)
  running.replace(5, 0.5f, 3);
  CHECK_EQ(run(&first), 3 * 6.5f);
  aot::Session later = running.session();
  CHECK_EQ(run(&later), 3 * 6.5f);
  running.replace(1, 1, 1);
  CHECK_EQ(run(&first), 3.0f);
  CHECK_EQ(run(&later), 3.0f);
}

TEST(weights_replaced_before_the_first_session) {
  Running running(swappable_package(false));
  running.replace(5, 0.5f, 3);
  aot::Session session = running.session();
  CHECK_EQ(run(&session), 3 * 6.5f);
}

TEST(outputs_of_earlier_runs_stay) {
  Running running(swappable_package(false));
  aot::Session session = running.session();
  const std::vector<float> x(kWidth, 1.0f);
  auto before = session.run({aot::Tensor::borrow(x.data(), {1, kWidth})});
  running.replace(5, 0.5f, 3);
  CHECK_EQ(run(&session), 3 * 6.5f);
  CHECK_EQ(before.value()[0].data<float>()[1], 4.0f);
}

TEST(partial_replacement) {
  Running running(swappable_package(true));
  aot::Session session = running.session();
  running.replace_one("shift", filled(0.5f));
  CHECK_EQ(run(&session, 2), 3.0f);  // the base is the package's
  running.replace_one("base", filled(7));
  CHECK_EQ(run(&session), 17.0f);  // and the shift the present one
  running.replace_one("tied", {10});
  CHECK_EQ(run(&session), 85.0f);
  running.replace_one("shift", filled(1), {true, true});  // from the package's own
  CHECK_EQ(run(&session, 2), 4.0f);
  check(running.package().replace_weights({}, {true, true}));
  CHECK_EQ(run(&session, 2), 2.0f);
}

TEST(partial_replacement_without_originals) {
  Running running(swappable_package(false));
  aot::Session session = running.session();
  running.replace_one("factor", {4});
  CHECK_EQ(run(&session, 4), 4.0f);
  CHECK_FAILS(running.replace_one("shift", filled(1)), AOT_INVALID_ARGUMENT,
              "replacing 'shift' needs 'base' too");
  CHECK_EQ(run(&session, 4), 4.0f);
  running.replace(5, 0.5f, 3);
  CHECK_FAILS(running.replace_one("shift", filled(1)), AOT_INVALID_ARGUMENT, "--keep-originals");
}

TEST(additions) {
  Running running(swappable_package(true));
  aot::Session session = running.session();
  const std::vector<float> delta = filled(0.25f);
  const aot::Tensor added = borrow(delta);
  const std::vector<float> up = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> down = {0.5f};
  const aot::Tensor factors[] = {aot::Tensor::borrow(up.data(), {kWidth, 1}),
                                 aot::Tensor::borrow(down.data(), {1, 1})};
  const aot::ReplaceOptions partial{true};
  for (int i = 1; i <= 2; ++i) {
    check(running.package().replace_weights({{"shift", &added.view(), true, nullptr, nullptr, 2}},
                                            partial));
    CHECK_EQ(run(&session, 2), 2.0f + static_cast<float>(i));
  }
  // A vector is a matrix of one column: base becomes column + 4 * 0.5 * (column + 1).
  check(running.package().replace_weights(
      {{"base", nullptr, false, &factors[0].view(), &factors[1].view(), 4}}, partial));
  CHECK_EQ(run(&session, 6), 8.0f);
  CHECK_FAILS(check(running.package().replace_weights(
                  {{"base", nullptr, false, &factors[0].view(), &factors[0].view(), 1}}, partial)),
              AOT_SHAPE_MISMATCH, "up (8, 1) times down (8, 1) is not of that shape");
  CHECK_FAILS(check(running.package().replace_weights(
                  {{"base", nullptr, false, &factors[0].view(), nullptr, 1}}, partial)),
              AOT_INVALID_ARGUMENT, "either a value or both factors");
}

TEST(additions_need_the_present_value) {
  Running running(swappable_package(false));
  const std::vector<float> delta = filled(1);
  const aot::Tensor added = borrow(delta);
  CHECK_FAILS(check(running.package().replace_weights({{"base", &added.view(), true}}, {true})),
              AOT_INVALID_ARGUMENT, "weight 'base' cannot be added to");
}

TEST(from_a_file) {
  Running running(swappable_package(false));
  aot::Session session = running.session();
  const File file(tensors_file({{"base", filled(2)}, {"shift", filled(1)}, {"factor", {2}}}));
  check(running.package().load_weights(file.path()));
  CHECK_EQ(run(&session), 8.0f);
  const File tied(
      tensors_file({{"base", filled(2)}, {"shift", filled(1)}, {"factor", {3}}, {"tied", {3}}}));
  check(running.package().load_weights(tied.path()));
  CHECK_EQ(run(&session), 12.0f);
}

TEST(files_that_do_not_fit) {
  Running running(swappable_package(true));
  aot::Session session = running.session();
  const auto load = [&](const std::string& content, aot::ReplaceOptions options = {}) {
    const File file(content);
    check(running.package().load_weights(file.path(), options));
  };
  CHECK_FAILS(load("hello, world"), AOT_CORRUPT_PACKAGE, "not a safetensors file");
  CHECK_FAILS(check(running.package().load_weights("/no/such.safetensors")), AOT_NOT_FOUND,
              "cannot open weights '/no/such.safetensors'");
  CHECK_FAILS(load(tensors_file({{"base", filled(2)}})), AOT_INVALID_ARGUMENT,
              "weights are missing: 'shift', 'factor'");
  CHECK_FAILS(load(tensors_file({{"other", filled(2)}}), {true}), AOT_INVALID_ARGUMENT,
              "the model has no weights 'other'");
  CHECK_FAILS(load(tensors_file({{"base", {1, 2}}}), {true}), AOT_SHAPE_MISMATCH,
              "weight 'base' has shape (2), the model has (8)");
  CHECK_FAILS(load(tensors_file({{"extra", {1}}}), {true}), AOT_INVALID_ARGUMENT,
              "weight 'extra' has dtype float32, the model has int64");
  CHECK_FAILS(load(tensors_file({{"factor", {1}}, {"tied", {2}}}), {true}), AOT_INVALID_ARGUMENT,
              "weight 'factor' is given twice");
  load(tensors_file({{"other", filled(2)}, {"factor", {5}}}), {true, false, true});
  CHECK_EQ(run(&session, 5), 5.0f);
}

TEST(packages_without_a_weight_program) {
  Running running(aot_test::small_package());
  CHECK_FAILS(running.replace(1, 1, 1), AOT_UNSUPPORTED, "package with --swappable");
}

TEST(weight_programs_that_do_not_fit) {
  const auto open = [](const std::function<void(json&)>& change) {
    Builder builder = swappable_package(false);
    change(builder.plan);
    const aot_test::Opened opened(builder);
  };
  const auto derived = [](json& plan) -> json& {
    return plan["programs"][0]["weights"]["derived"][0];
  };
  const auto routine = [](json& plan) -> json& {
    return plan["programs"][0]["weights"]["routines"][0];
  };
  CHECK_FAILS(open([&](json& p) { derived(p)["routine"] = 1; }), AOT_CORRUPT_PACKAGE, "routine");
  CHECK_FAILS(open([&](json& p) { derived(p)["sources"] = {"base"}; }), AOT_CORRUPT_PACKAGE,
              "not as many as the routine takes");
  CHECK_FAILS(open([&](json& p) { derived(p)["sources"][1] = "nobody"; }), AOT_CORRUPT_PACKAGE,
              "is no weight of the plan");
  CHECK_FAILS(open([&](json& p) { derived(p)["sources"][1] = "factor"; }), AOT_CORRUPT_PACKAGE,
              "is not what the routine takes");
  CHECK_FAILS(open([&](json& p) { derived(p)["entry"] = "weights/factor"; }), AOT_CORRUPT_PACKAGE,
              "is not what the routine gives");
  CHECK_FAILS(open([&](json& p) {
                routine(p)["buffers"][0]["storage"] = {
                    {"kind", "entry"}, {"entry", "weights/bias"}, {"offset", 0}};
              }),
              AOT_CORRUPT_PACKAGE, "reads an entry of the package");
  CHECK_FAILS(open([&](json& p) { routine(p)["results"] = json::array(); }), AOT_CORRUPT_PACKAGE,
              "must have one result");
  CHECK_FAILS(open([&](json& p) { p["weights"][2]["shape"] = {2}; }), AOT_CORRUPT_PACKAGE,
              "has another size than the weight");
}

// Each run sees one set of weights, whole: with (1, 2, 1) every element is 4, with (3, 4, 2) 16.
TEST(replaced_while_others_run) {
  Running running(swappable_package(false));
  running.replace(1, 2, 1);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> runs{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      aot::Session session = running.session();
      while (!stop) {
        const float y = run(&session);
        if (y != 4 && y != 16) ++wrong;
        ++runs;
      }
    });
  }
  while (runs == 0) std::this_thread::yield();
  for (int i = 0; i < 300; ++i) {
    running.replace(i % 2 == 0 ? 3 : 1, i % 2 == 0 ? 4 : 2, i % 2 == 0 ? 2 : 1);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

TEST(replacements_from_several_threads) {
  Running running(swappable_package(true));
  aot::Session session = running.session();
  std::vector<std::thread> threads;
  for (int id = 0; id < 3; ++id) {
    threads.emplace_back([&running, id] {
      for (int i = 0; i < 40; ++i) running.replace(static_cast<float>(id), 1, 1);
    });
  }
  for (int i = 0; i < 100; ++i) {
    const float y = run(&session, 0);
    CHECK(std::isnan(y) || (y >= 2 && y <= 4));  // NaN: the package's own, which has steps
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(run(&session) >= 2);
}

TEST(halves) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float single = aot_rt::from_float16(half);
    if (std::isnan(single)) {
      CHECK(std::isnan(aot_rt::from_float16(aot_rt::to_float16(single))));
    } else {
      CHECK_EQ(aot_rt::to_float16(single), half);
    }
    const float brain = aot_rt::from_bfloat16(half);
    if (!std::isnan(brain)) CHECK_EQ(aot_rt::to_bfloat16(brain), half);
  }
  CHECK_EQ(aot_rt::from_float16(0x3c00), 1.0f);
  CHECK_EQ(aot_rt::from_float16(1), 0x1p-24f);
  CHECK_EQ(aot_rt::to_float16(0x1.002p0f), 0x3c00);  // ties to even
  CHECK_EQ(aot_rt::to_float16(0x1.006p0f), 0x3c02);
  CHECK_EQ(aot_rt::to_float16(65519.0f), 0x7bff);
  CHECK_EQ(aot_rt::to_float16(65520.0f), 0x7c00);
  CHECK_EQ(aot_rt::to_float16(0x1p-25f), 0);
  CHECK_EQ(aot_rt::to_float16(0x1.8p-25f), 1);
  CHECK_EQ(aot_rt::to_bfloat16(0x1.01p0f), 0x3f80);  // ties to even
  CHECK_EQ(aot_rt::to_bfloat16(0x1.03p0f), 0x3f82);
}

TEST_MAIN
