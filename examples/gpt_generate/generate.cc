// Generates tokens with a package of model.py; the cache of keys and values stays in the session.
//   ./generate gpt.pkg [--device cpu] [--tokens 64] [--first 7] [--sessions 1]
// Several sessions generate in turn, on one copy of the weights; the memory of the process is
// shown.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "aot/aot.hpp"

namespace {

struct Options {
  std::string package;
  std::string device = "cpu";
  int64_t tokens = 64;
  int64_t first = 7;
  int64_t sessions = 1;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      options.package = word;
      continue;
    }
    if (++i == argc) throw std::runtime_error(word + " needs a value");
    const std::string value = argv[i];
    if (word == "--device") {
      options.device = value;
    } else if (word == "--tokens") {
      options.tokens = std::stoll(value);
    } else if (word == "--first") {
      options.first = std::stoll(value);
    } else if (word == "--sessions") {
      options.sessions = std::stoll(value);
    } else {
      throw std::runtime_error("unknown option " + word);
    }
  }
  if (options.package.empty()) throw std::runtime_error("which package?");
  return options;
}

// Kilobytes of memory that the process holds.
int64_t resident() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t pages = 0;
  file >> total >> pages;
  return pages * sysconf(_SC_PAGESIZE) / 1024;
}

// Kilobytes of the package's entries whose names begin with one of the prefixes.
int64_t weights(const aot::Package& package) {
  size_t bytes = 0;
  for (size_t i = 0; i < package.entry_count(); ++i) {
    const std::string name = package.entry(i).name;
    if (name.rfind("weights/", 0) == 0 || name.rfind("packed/", 0) == 0) {
      bytes += package.entry(i).size;
    }
  }
  return static_cast<int64_t>(bytes / 1024);
}

std::vector<int64_t> generate(aot::Session* session, const Options& options) {
  aot::RunOptions on_host;
  on_host.host_outputs = true;
  std::vector<int64_t> tokens;
  int64_t token = options.first;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const auto outputs = session->run({aot::Tensor::borrow(&token, {1})}, on_host).value();
    token = *outputs[0].data<int64_t>();
    tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  const aot::Package package = aot::Package::open(options.package).value();
  aot::SessionOptions settings;
  settings.device = options.device;
  std::vector<aot::Session> sessions;
  std::vector<int64_t> expected;
  int64_t one = 0;
  for (int64_t i = 0; i < options.sessions; ++i) {
    sessions.push_back(aot::Session::create(package, settings).value());
    const std::vector<int64_t> tokens = generate(&sessions.back(), options);
    if (i == 0) {
      expected = tokens;
      one = resident();
    }
    if (tokens != expected) throw std::runtime_error("two sessions made other tokens");
  }
  for (const int64_t token : expected) std::printf("%lld ", static_cast<long long>(token));
  std::printf("\nweights %lld KB; resident %lld KB with 1 session, %lld KB with %lld\n",
              static_cast<long long>(weights(package)), static_cast<long long>(one),
              static_cast<long long>(resident()), static_cast<long long>(options.sessions));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
