#include "mixed_load.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "apart.h"
#include "changing_package.h"
#include "cuda_package.h"
#include "error.h"

namespace aot_test {
namespace {

using aot_rt::cat;
using Random = std::mt19937_64;

constexpr int kSets = 5;  // of weights: base[j] = set + j
constexpr int kForkSeconds = 60;
constexpr size_t kKept = 8;  // mistakes that are told in words
constexpr Mishap kMishaps[] = {Mishap::kSize, Mishap::kKernel, Mishap::kOperator, Mishap::kCheck};

enum class Model { kChanging, kState, kWeights };

// A session that threads share; freed with its last user.
struct Held {
  Held(Model model, Owned session) : model(model), session(std::move(session)) {}
  const Model model;
  const Owned session;
  std::mutex states;  // held over a run and what is read of its states
};

struct Slot {
  std::mutex mutex;
  std::shared_ptr<Held> held;
};

int64_t below(Random* random, int64_t bound) {
  return static_cast<int64_t>((*random)() % static_cast<uint64_t>(bound));
}

std::atomic<int64_t> g_observed{0};

void observe(void* /*context*/, size_t, size_t, const void* /*data*/, size_t /*size*/) {
  ++g_observed;
}

class Load {
 public:
  explicit Load(const LoadOptions& options)
      : options_(options), slots_(static_cast<size_t>(options.sessions)) {
    Random random(options.seed);
    for (Slot& slot : slots_) slot.held = make(&random);
  }

  LoadResult run(const std::function<void(const LoadCounts&)>& tick) {
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.threads; ++i) threads.emplace_back([this, i] { work(i); });
    std::thread teller([this, &tick] { tell(tick); });
    for (std::thread& thread : threads) thread.join();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    done_.notify_all();
    teller.join();
    LoadResult result;
    result.counts = counts();
    result.wrong = wrong_;
    result.first_wrong = first_wrong_;
    return result;
  }

 private:
  LoadCounts counts() const { return {runs_, failed_, swaps_, made_, forks_}; }

  void tell(const std::function<void(const LoadCounts&)>& tick) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!done_.wait_for(lock, std::chrono::seconds(1), [this] { return over_; })) {
      if (tick != nullptr) tick(counts());
    }
  }

  void wrong(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++wrong_;
    if (first_wrong_.size() < kKept) first_wrong_.push_back(text);
  }

  void expect_right(const std::string& mistake) {
    if (!mistake.empty()) wrong(mistake);
  }

  aot_package* package_of(Model model) const {
    return (model == Model::kChanging ? changing_
            : model == Model::kState  ? state_
                                      : weights_)
        .get();
  }

  std::shared_ptr<Held> make(Random* random) {
    const Model models[] = {Model::kChanging, Model::kChanging, Model::kState, Model::kWeights,
                            Model::kWeights};
    const Model model = models[below(random, 5)];
    aot_session_options options{};
    options.num_threads = static_cast<int32_t>(1 + below(random, 2));
    options.profile = below(random, 4) == 0 ? 1 : 0;
    ++made_;
    return std::make_shared<Held>(model,
                                  Owned(package_of(model), options_.device.c_str(), options));
  }

  Slot& pick(Random* random) {
    return slots_[static_cast<size_t>(below(random, static_cast<int64_t>(slots_.size())))];
  }

  std::shared_ptr<Held> borrow(Random* random) {
    Slot& slot = pick(random);
    const std::lock_guard<std::mutex> lock(slot.mutex);
    return slot.held;
  }

  void put(Random* random, std::shared_ptr<Held> held) {
    Slot& slot = pick(random);
    const std::lock_guard<std::mutex> lock(slot.mutex);
    slot.held.swap(held);  // the old one goes when this thread, or its last user, lets go of it
  }

  void work(int number) {
    Random random(options_.seed * 1000 + static_cast<uint64_t>(number));
    const auto start = std::chrono::steady_clock::now();
    const auto goes_on = [&](int64_t turn) {
      if (options_.seconds == 0) return turn < options_.turns;
      const auto passed = std::chrono::steady_clock::now() - start;
      return std::chrono::duration<double>(passed).count() < options_.seconds;
    };
    for (int64_t turn = 0; goes_on(turn); ++turn) {
      try {
        one_turn(&random);
      } catch (const aot_rt::Error& error) {
        wrong(cat(aot_code_name(error.code()), ": ", error.what()));
      }
    }
  }

  void one_turn(Random* random) {
    const int64_t choice = below(random, 1000);
    if (choice < 820) {
      use(*borrow(random), random);
    } else if (choice < 860) {
      swap_weights(random);
    } else if (choice < 900) {
      put(random, make(random));
    } else if (choice < 930) {
      clone(*borrow(random), random);
    } else if (choice < 960) {
      watch(*borrow(random));
    } else if (choice < 995) {
      measure(*borrow(random));
    } else if (choice < 998) {
      open_and_close();
    } else if (options_.forks && options_.device == "cpu") {
      fork_once(*borrow(random));
    }
  }

  void use(Held& held, Random* random) {
    ++runs_;
    switch (held.model) {
      case Model::kChanging:
        use_changing(held, random);
        break;
      case Model::kState:
        use_states(held, random);
        break;
      case Model::kWeights:
        use_weights(held, random);
        break;
    }
  }

  void use_changing(Held& held, Random* random) {
    Turn turn;
    turn.rows = 64 + below(random, 64) * (below(random, 8) == 0 ? 16 : 1);
    turn.count = below(random, 65);
    turn.fill = static_cast<float>(below(random, 100));
    if (below(random, 3) == 0) {
      turn.mishap = kMishaps[below(random, 4)];
      ++failed_;
    }
    expect_right(wrong_in(held.session.get(), turn));
  }

  // Nobody else runs this session meanwhile: the state is what its own run leaves.
  void use_states(Held& held, Random* random) {
    const std::lock_guard<std::mutex> lock(held.states);
    std::vector<float> state(8, static_cast<float>(below(random, 1000)));
    expect_ok(aot_session_set_state(held.session.get(), 0, state.data(), 32));
    std::vector<float> x(8, static_cast<float>(below(random, 1000)));
    const float sum = x[0] + state[0];
    std::vector<aot::Tensor> inputs;
    inputs.push_back(aot::Tensor::borrow(x.data(), {1, 8}));
    const auto outputs = run_on_host(held.session.get(), inputs, 2);
    expect_ok(aot_session_get_state(held.session.get(), 0, state.data(), 32));
    const std::vector<float> wanted(8, sum);
    if (state != wanted) wrong("a state after a run");
    if (x != wanted) wrong("a changed input after a run");
    if (outputs[1].data<float>()[0] != 16 * sum) wrong("a total of states");
    if (below(random, 4) == 0) expect_ok(aot_session_reset(held.session.get()));
  }

  // All of one set of weights, whichever is the present one.
  void use_weights(Held& held, Random* random) {
    const int64_t rows = 1 + below(random, 64);
    const float fill = static_cast<float>(below(random, 100));
    const std::vector<float> x(static_cast<size_t>(rows * 8), fill);
    std::vector<aot::Tensor> inputs;
    inputs.push_back(aot::Tensor::borrow(x.data(), {rows, 8}));
    const auto outputs = run_on_host(held.session.get(), inputs, 2);
    const float set = outputs[0].data<float>()[0] / 2 - fill;
    if (set < 0 || set >= kSets || set != static_cast<float>(static_cast<int>(set))) {
      wrong(cat("a first element of ", outputs[0].data<float>()[0], " from ", fill));
      return;
    }
    for (int64_t i = 0; i < rows; ++i) {
      if (outputs[1].data<float>()[i] != 2 * (8 * (fill + set) + 28)) {
        wrong(cat("total ", i, " of ", rows, " with set ", set));
        return;
      }
    }
  }

  void swap_weights(Random* random) {
    std::vector<float> base;
    const auto set = static_cast<float>(below(random, kSets));
    for (int i = 0; i < 8; ++i) base.push_back(set + static_cast<float>(i));
    const aot::Tensor value = aot::Tensor::borrow(base.data(), {8});
    aot_weight_update update{};
    update.struct_size = sizeof(update);
    update.name = below(random, 10) == 0 ? "nobody" : "base";
    update.value = &value.view();
    const aot_weight_update* const updates[] = {&update};
    aot_replace_options options{};
    options.struct_size = sizeof(options);
    options.partial = 1;
    ++swaps_;
    const std::string failed =
        cat_status(aot_package_replace_weights(weights_.get(), updates, 1, &options));
    if (failed.empty() != (update.name[0] == 'b')) wrong(cat("a swap: ", failed));
  }

  void clone(Held& held, Random* random) {
    aot_session* copy = nullptr;
    expect_ok(aot_session_clone(held.session.get(), &copy));
    ++made_;
    put(random, std::make_shared<Held>(held.model, Owned(copy)));
  }

  // Other threads may be running the session, and are then observed too.
  void watch(Held& held) {
    expect_ok(aot_session_set_observer(held.session.get(), observe, nullptr));
    if (held.model == Model::kChanging) {
      expect_right(wrong_in(held.session.get(), {64, 3, Mishap::kNone, 2}));
    }
    expect_ok(aot_session_set_observer(held.session.get(), nullptr, nullptr));
  }

  void measure(Held& held) {
    aot_step_profile steps[8] = {};
    size_t count = 0;
    expect_ok(aot_session_profile(held.session.get(), steps, 8, &count));
    if (count != (held.model == Model::kChanging ? 8U : 3U)) wrong("a profile's steps");
    expect_ok(aot_session_synchronize(held.session.get()));
  }

  void open_and_close() {
    const Opened package(small_cuda_package());  // whose memory the session reads to its end
    const Owned session(package.get(), options_.device.c_str());
    const std::vector<float> x(8, 1.0f);
    std::vector<aot::Tensor> inputs;
    inputs.push_back(aot::Tensor::borrow(x.data(), {1, 8}));
    if (run_on_host(session.get(), inputs, 2)[1].data<float>()[0] != 72) wrong("a first run");
  }

  // A child's runs are right, or are refused because of the fork.
  void fork_once(Held& held) {
    ++forks_;
    const auto right = [this](aot_session* session) {
      try {
        return run_turn(session, {64, 4, Mishap::kNone, 1}).empty();
      } catch (const aot_rt::Error& error) {
        return std::string(error.what()).find("fork") != std::string::npos;
      }
    };
    const std::string end = in_child(kForkSeconds, [&] {
      aot_session_options options{};
      options.num_threads = 1;
      if (held.model == Model::kChanging) CHECK(right(held.session.get()));
      try {
        const Owned fresh(changing_.get(), "cpu", options);
        CHECK(right(fresh.get()));
      } catch (const aot_rt::Error& error) {
        CHECK(std::string(error.what()).find("fork") != std::string::npos);
      }
    });
    if (!end.empty()) wrong(cat("a child: ", end));
  }

  const LoadOptions options_;
  const Gate gate_;
  const Opened changing_{changing_package()};
  const Opened state_{state_cuda_package()};
  const Opened weights_{[] {
    Builder builder = swappable_package(true);
    add_cuda(&builder, {"sm_90"});
    return builder;
  }()};
  std::vector<Slot> slots_;
  std::atomic<int64_t> runs_{0};
  std::atomic<int64_t> failed_{0};
  std::atomic<int64_t> swaps_{0};
  std::atomic<int64_t> made_{0};
  std::atomic<int64_t> forks_{0};
  std::mutex mutex_;  // of what follows
  std::condition_variable done_;
  bool over_ = false;
  int64_t wrong_ = 0;
  std::vector<std::string> first_wrong_;
};

}  // namespace

LoadResult run_load(const LoadOptions& options,
                    const std::function<void(const LoadCounts&)>& tick) {
  Load load(options);
  return load.run(tick);
}

}  // namespace aot_test
