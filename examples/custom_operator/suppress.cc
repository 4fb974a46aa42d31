// detect::suppress for packages: a shared library that needs the headers alone.
#include <algorithm>
#include <numeric>
#include <vector>

#include "aot/operator.hpp"

namespace {

struct Box {
  float left, top, right, bottom;
};

float area(const Box& box) {
  return std::max(box.right - box.left, 0.0f) * std::max(box.bottom - box.top, 0.0f);
}

void suppress(const aot::OperatorCall& call) {
  const auto* boxes = aot::OperatorCall::data<const Box>(call.tensor("boxes"));
  const auto* scores = aot::OperatorCall::data<const float>(call.tensor("scores"));
  const auto threshold = static_cast<float>(call.number("threshold"));
  auto* keep = aot::OperatorCall::data<bool>(call.result(0));
  const auto count = static_cast<size_t>(call.result(0).shape[0]);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [scores](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::fill_n(keep, count, true);
  for (const size_t best : order) {
    if (!keep[best]) continue;
    const Box& one = boxes[best];
    for (size_t i = 0; i < count; ++i) {
      const Box& other = boxes[i];
      const Box both{std::max(one.left, other.left), std::max(one.top, other.top),
                     std::min(one.right, other.right), std::min(one.bottom, other.bottom)};
      const float common = area(both);
      const bool overlaps = common > threshold * (area(one) + area(other) - common);
      if (overlaps && scores[i] < scores[best]) keep[i] = false;
    }
  }
}

}  // namespace

extern "C" int aot_operator_library_init(const aot_operator_registry* registry) {
  return registry->add(registry, "detect::suppress", aot::operator_entry<suppress>, nullptr,
                       nullptr);
}
