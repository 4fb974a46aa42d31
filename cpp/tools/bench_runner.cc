// A deploy process without Python, driven over stdin and stdout, one line each:
//   aot_bench_runner PACKAGE INPUTS_DIR THREADS
//     -> (start)                      <- READY          package loaded
//                                     <- FIRST          first output computed (input set 0)
//     -> slice SET SECONDS MAX_REPS   <- TIMES t1 t2 …  seconds per call, at least one
//     -> save SET DIR                 <- SAVED          outputs written as DIR/out0.npy …
//     -> quit
// INPUTS_DIR/meta.txt has lines "set file.npy channels_last"; a channels-last file is read in C
// order and handed over as a strided tensor.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "npy.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Rearranges (n, c, h, w) in memory to (n, h, w, c); the shape stays.
void to_channels_last(aot_tools::Array* array) {
  if (array->shape.size() != 4) throw std::runtime_error("channels_last needs four dimensions");
  const int64_t channels = array->shape[1];
  const int64_t pixels = array->shape[2] * array->shape[3];
  const size_t element = array->element();
  std::vector<uint64_t> storage(array->storage.size());
  auto* to = reinterpret_cast<char*>(storage.data());
  const auto* from = reinterpret_cast<const char*>(array->storage.data());
  for (int64_t n = 0; n < array->shape[0]; ++n) {
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t c = 0; c < channels; ++c) {
        std::memcpy(to + static_cast<size_t>((n * pixels + p) * channels + c) * element,
                    from + static_cast<size_t>((n * channels + c) * pixels + p) * element, element);
      }
    }
  }
  array->storage = std::move(storage);
  array->strides = {channels * pixels, 1, array->shape[3] * channels, channels};
}

struct InputSet {
  std::vector<aot_tools::Array> arrays;
  std::vector<aot::Tensor> tensors;
};

std::vector<InputSet> read_inputs(const std::string& dir) {
  std::vector<InputSet> sets;
  std::ifstream meta(dir + "/meta.txt");
  size_t set = 0;
  std::string file;
  int channels_last = 0;
  while (meta >> set >> file >> channels_last) {
    if (sets.size() <= set) sets.resize(set + 1);
    sets[set].arrays.push_back(aot_tools::read_npy(dir + "/" + file));
    if (channels_last != 0) to_channels_last(&sets[set].arrays.back());
  }
  for (InputSet& one : sets) {
    for (const aot_tools::Array& array : one.arrays) one.tensors.push_back(array.tensor());
  }
  return sets;
}

void save(aot::Session& session, const InputSet& set, const std::string& dir) {
  std::filesystem::create_directories(dir);
  const std::vector<aot::Tensor> outputs = session.run(set.tensors).value();
  for (size_t i = 0; i < outputs.size(); ++i) {
    aot_tools::write_npy(dir + "/out" + std::to_string(i) + ".npy", outputs[i]);
  }
}

void slice(aot::Session& session, const InputSet& set, double limit, size_t repeats) {
  std::vector<double> times;
  const auto start = Clock::now();
  for (;;) {
    const auto before = Clock::now();
    const auto outputs = session.run(set.tensors);
    const auto after = Clock::now();
    if (!outputs.ok()) throw outputs.error();
    times.push_back(seconds(after - before));
    if (seconds(after - start) >= limit || times.size() >= repeats) break;
  }
  std::cout << "TIMES";
  for (const double time : times) std::cout << ' ' << time;
  std::cout << std::endl;
}

void serve(aot::Session& session, const std::vector<InputSet>& sets) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    size_t set = 0;
    words >> command;
    if (command == "quit") break;
    words >> set;
    if (set >= sets.size()) throw std::runtime_error("no input set " + std::to_string(set));
    if (command == "save") {
      std::string dir;
      words >> dir;
      save(session, sets[set], dir);
      std::cout << "SAVED" << std::endl;
    } else if (command == "slice") {
      double limit = 0;
      size_t repeats = 0;
      words >> limit >> repeats;
      slice(session, sets[set], limit, repeats);
    } else {
      throw std::runtime_error("unknown command '" + command + "'");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: " << argv[0] << " PACKAGE INPUTS_DIR THREADS\n";
    return 2;
  }
  try {
    const std::vector<InputSet> sets = read_inputs(argv[2]);
    if (sets.empty()) throw std::runtime_error("no inputs in " + std::string(argv[2]));
    const aot::Package package = aot::Package::open(argv[1]).value();
    aot::SessionOptions options;
    options.num_threads = std::atoi(argv[3]);
    if (const char* isa = std::getenv("AOT_RUNNER_ISA")) options.isa = isa;
    aot::Session session = aot::Session::create(package, options).value();
    std::cout << "READY" << std::endl;
    session.run(sets[0].tensors).value();
    std::cout << "FIRST" << std::endl;
    serve(session, sets);
  } catch (const aot::Error& error) {
    std::cerr << "error " << error.code_name() << ": " << error.what() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
