// How alike are some sentences? Encodes them in one batch and prints the cosine of every pair.
//   ./similarity minilm.pkg vocab.txt "first sentence" "second sentence" …
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "aot/aot.hpp"
#include "wordpiece.h"

namespace {

constexpr int64_t kLongest = 256;  // tokens, the package's limit
constexpr int kRuns = 20;

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

// Ids and mask of all sentences, padded to the longest: two matrices of batch × length.
struct Batch {
  int64_t size;
  int64_t length;
  std::vector<int64_t> ids;
  std::vector<int64_t> mask;
};

Batch make_batch(const WordPiece& tokenizer, const std::vector<std::string>& sentences) {
  std::vector<std::vector<int64_t>> rows;
  size_t longest = 0;
  for (const std::string& sentence : sentences) {
    rows.push_back(tokenizer.encode(sentence, kLongest));
    longest = std::max(longest, rows.back().size());
  }
  Batch batch{static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest), {}, {}};
  for (const std::vector<int64_t>& row : rows) {
    batch.ids.insert(batch.ids.end(), row.begin(), row.end());
    batch.ids.resize(batch.ids.size() + longest - row.size(), 0);
    batch.mask.insert(batch.mask.end(), row.size(), 1);
    batch.mask.resize(batch.mask.size() + longest - row.size(), 0);
  }
  return batch;
}

// Rows have length 1, so a cosine is a dot product.
void print_similarities(const aot::Tensor& vectors) {
  const float* v = vectors.data<float>();
  const int64_t width = vectors.size(1);
  for (int64_t i = 0; i < vectors.size(0); ++i) {
    for (int64_t j = 0; j < vectors.size(0); ++j) {
      double dot = 0;
      for (int64_t k = 0; k < width; ++k) dot += double{v[i * width + k]} * v[j * width + k];
      std::printf("%10.6f", dot);
    }
    std::puts("");
  }
}

int run(const std::string& path, const std::string& vocabulary,
        const std::vector<std::string>& sentences) {
  Clock::time_point start = Clock::now();
  const aot::Package package = aot::Package::open(path).value();
  aot::Session session = aot::Session::create(package).value();
  std::printf("load %.2f ms, kernels for %s, %d threads\n", milliseconds(start), session.isa(),
              session.num_threads());

  const Batch batch = make_batch(WordPiece(vocabulary), sentences);
  std::vector<aot::Tensor> inputs;
  inputs.push_back(aot::Tensor::borrow(batch.ids.data(), {batch.size, batch.length}));
  inputs.push_back(aot::Tensor::borrow(batch.mask.data(), {batch.size, batch.length}));

  std::vector<double> times;
  std::vector<aot::Tensor> outputs;
  for (int i = 0; i < kRuns; ++i) {
    start = Clock::now();
    outputs = session.run(inputs).value();
    times.push_back(milliseconds(start));
  }
  std::sort(times.begin() + 1, times.end());
  std::printf("first run %.2f ms, then %.2f ms for %zu sentences of up to %zu tokens\n", times[0],
              times[times.size() / 2], sentences.size(), static_cast<size_t>(batch.length));
  print_similarities(outputs[0]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s minilm.pkg vocab.txt SENTENCE…\n", argv[0]);
    return 2;
  }
  return run(argv[1], argv[2], std::vector<std::string>(argv + 3, argv + argc));
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
