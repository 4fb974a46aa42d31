#include "strided_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "error.h"

namespace aot_rt {
namespace {

struct Axis {
  int64_t size;
  int64_t to;  // strides, in bytes
  int64_t from;
};

// Axes of size 1 dropped, outermost (in the target) first, neighbours merged where both allow it.
std::vector<Axis> normalise(const std::vector<int64_t>& to_strides,
                            const std::vector<int64_t>& from_strides,
                            const std::vector<int64_t>& sizes, int32_t element) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    axes.push_back({sizes[i], to_strides[i] * element, from_strides[i] * element});
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return a.to > b.to; });
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (!merged.empty() && merged.back().to == axis.to * axis.size &&
        merged.back().from == axis.from * axis.size) {
      merged.back() = {merged.back().size * axis.size, axis.to, axis.from};
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

// A plane of two axes, in tiles that stay in the first-level cache in both layouts.
template <int kElement>
void copy_plane(uint8_t* to, const uint8_t* from, const Axis& outer, const Axis& inner) {
  constexpr int64_t kTile = 32;
  for (int64_t i0 = 0; i0 < outer.size; i0 += kTile) {
    const int64_t i1 = std::min(i0 + kTile, outer.size);
    for (int64_t j0 = 0; j0 < inner.size; j0 += kTile) {
      const int64_t j1 = std::min(j0 + kTile, inner.size);
      for (int64_t i = i0; i < i1; ++i) {
        uint8_t* target = to + i * outer.to;
        const uint8_t* source = from + i * outer.from;
        for (int64_t j = j0; j < j1; ++j) {
          std::memcpy(target + j * inner.to, source + j * inner.from, kElement);
        }
      }
    }
  }
}

using PlaneFn = void (*)(uint8_t*, const uint8_t*, const Axis&, const Axis&);

PlaneFn plane_for(int32_t element) {
  switch (element) {
    case 1:
      return copy_plane<1>;
    case 2:
      return copy_plane<2>;
    case 4:
      return copy_plane<4>;
    case 8:
      return copy_plane<8>;
    default:
      fail(AOT_INTERNAL, "copy of elements of ", element, " bytes");
  }
}

// Calls body(to, from) at every index of `axes`, the last one fastest.
template <typename Body>
void for_each_index(const std::vector<Axis>& axes, uint8_t* to, const uint8_t* from, Body body) {
  std::vector<int64_t> index(axes.size(), 0);
  for (;;) {
    body(to, from);
    size_t k = axes.size();
    while (k > 0) {
      const Axis& axis = axes[--k];
      to += axis.to;
      from += axis.from;
      if (++index[k] < axis.size) break;
      to -= axis.to * axis.size;
      from -= axis.from * axis.size;
      index[k] = 0;
      if (k == 0) return;
    }
    if (axes.empty()) return;
  }
}

}  // namespace

void strided_copy(void* to, const std::vector<int64_t>& to_strides, const void* from,
                  const std::vector<int64_t>& from_strides, const std::vector<int64_t>& sizes,
                  int32_t element) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  std::vector<Axis> axes = normalise(to_strides, from_strides, sizes, element);
  const Axis single{1, element, element};
  const Axis inner = axes.empty() ? single : axes.back();
  if (!axes.empty()) axes.pop_back();
  if (inner.to == element && inner.from == element) {
    const auto bytes = static_cast<size_t>(inner.size * element);
    for_each_index(axes, target, source,
                   [bytes](uint8_t* t, const uint8_t* s) { std::memcpy(t, s, bytes); });
    return;
  }
  // The second axis of the plane: the one that is dense in the source, if there is one.
  Axis outer = single;
  outer.size = 1;
  const auto dense = std::min_element(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return std::abs(a.from) < std::abs(b.from);
  });
  if (dense != axes.end()) {
    outer = *dense;
    axes.erase(dense);
  }
  const PlaneFn plane = plane_for(element);
  for_each_index(axes, target, source,
                 [&](uint8_t* t, const uint8_t* s) { plane(t, s, outer, inner); });
}

}  // namespace aot_rt
