// What a run of so many rows takes, as it was measured.
#ifndef AOT_SERVE_LATENCY_H_
#define AOT_SERVE_LATENCY_H_

#include <cstdint>
#include <map>

namespace serve {

class Latency {
 public:
  void set(int64_t rows, double seconds) { points_[rows] = seconds; }
  bool empty() const { return points_.empty(); }
  const std::map<int64_t, double>& points() const { return points_; }

  // Between measured points in a straight line, beyond the last in proportion.
  double seconds(int64_t rows) const;

  // True where one run of `a + b` rows takes no longer than two runs would.
  bool pays(int64_t a, int64_t b) const {
    return empty() || seconds(a + b) <= seconds(a) + seconds(b);
  }

 private:
  std::map<int64_t, double> points_;
};

}  // namespace serve

#endif  // AOT_SERVE_LATENCY_H_
