#include "latency.h"

#include <iterator>

namespace serve {

double Latency::seconds(int64_t rows) const {
  if (points_.empty()) return 0;
  const auto above = points_.lower_bound(rows);
  if (above == points_.end()) {
    const auto& last = *points_.rbegin();
    return last.second * static_cast<double>(rows) / static_cast<double>(last.first);
  }
  if (above->first == rows || above == points_.begin()) return above->second;
  const auto below = std::prev(above);
  const double share =
      static_cast<double>(rows - below->first) / static_cast<double>(above->first - below->first);
  return below->second + share * (above->second - below->second);
}

}  // namespace serve
