#include "cpu/chunks.h"

#include <algorithm>

namespace aot_rt {
namespace {

// Where a share is cut, in 32nds of it: long chunks first, which join more units, then short ones.
// What a kernel does before its first unit (transforming inputs, lists of pointers) is done again
// for each chunk, so a share of few units is cut in two at most.
constexpr int32_t kPieces = 6;
constexpr int32_t kHalved = 4;
constexpr int64_t kCuts[kPieces + 1] = {0, 8, 16, 22, 27, 30, 32};

// Floor of units * part / whole, for 0 <= part <= whole < 2^31.
int64_t part_of(int64_t units, int64_t part, int64_t whole) {
  return units / whole * part + units % whole * part / whole;
}

}  // namespace

Chunks::Chunks(int64_t units, int64_t grain, int32_t threads) : units_(units) {
  const int64_t grains = std::max<int64_t>(1, units / grain);
  workers_ = static_cast<int32_t>(std::min<int64_t>(threads, grains));
  const int64_t share = grains / workers_;
  if (workers_ > 1 && share >= kHalved) pieces_ = share < kPieces ? 2 : kPieces;
}

int64_t Chunks::begin(int64_t chunk) const {
  // Two pieces are halves.
  const auto cut = [this](int64_t piece) { return pieces_ == kPieces ? kCuts[piece] : piece; };
  const int64_t whole = cut(pieces_);
  const int64_t front = units_ / workers_;
  if (chunk <= pieces_) return part_of(front, cut(chunk), whole);
  // From the back, as many chunks of a length as there are helpers.
  const int64_t helpers = workers_ - 1;
  const int64_t behind = count() - chunk;
  const int64_t round = behind / helpers;
  int64_t taken = cut(round) * helpers;
  if (round < pieces_) taken += behind % helpers * (cut(round + 1) - cut(round));
  return units_ - part_of(units_ - front, taken, whole * helpers);
}

}  // namespace aot_rt
