#include "probe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "batch.h"
#include "call.h"

namespace serve {
namespace {

// Of every size: at least so many runs, and so many that they took so long in all had each been as
// short as the shortest. Other work on the machine stops a process for milliseconds: the least time
// of short runs needs many of them, and those that were stopped say nothing.
constexpr int kLeastRuns = 5;
constexpr double kLeastSeconds = 0.005;
constexpr double kMostSeconds = 1;  // ends a size that takes long before its fifth run

// Rows of every input, each in memory of its own.
struct Sample {
  std::vector<std::vector<int64_t>> shapes;  // of one row: the first size is 1
  std::vector<std::vector<std::vector<char>>> rows;
  int64_t count = 0;
};

// The smallest sizes that the contract allows, all zero.
Sample zeros(const Contract& contract) {
  Sample sample;
  for (const TensorSpec& spec : contract.inputs) {
    std::vector<int64_t> shape;
    for (const Dim& dim : spec.dims) {
      shape.push_back(dim.size != -1 ? dim.size : std::max<int64_t>(dim.min, 1));
    }
    sample.rows.push_back({std::vector<char>(tensor_bytes(*spec.type, shape, spec.name))});
    sample.shapes.push_back(std::move(shape));
  }
  sample.count = 1;
  return sample;
}

// The entries of each set of golden inputs.
std::vector<std::vector<const aot_entry_info*>> golden_sets(const aot::Package& package,
                                                            const Contract& contract) {
  const nlohmann::json plan = nlohmann::json::parse(package.plan(), nullptr, false);
  std::vector<std::vector<const aot_entry_info*>> sets;
  for (const auto& set : plan.value("golden", nlohmann::json::array())) {
    std::vector<const aot_entry_info*> entries;
    for (const auto& name : set.value("inputs", nlohmann::json::array())) {
      const aot_entry_info* entry = package.find_entry(name.get<std::string>().c_str());
      if (entry != nullptr) entries.push_back(entry);
    }
    if (entries.size() == contract.inputs.size()) sets.push_back(std::move(entries));
  }
  return sets;
}

// A set cut into rows; of no rows where its inputs have not the same number of them.
Sample cut(const std::vector<const aot_entry_info*>& entries) {
  Sample sample;
  sample.count = entries[0]->ndim > 0 ? entries[0]->shape[0] : 0;
  for (const aot_entry_info* entry : entries) {
    if (entry->ndim == 0 || entry->shape[0] != sample.count || sample.count == 0) return {};
    std::vector<int64_t> shape(entry->shape, entry->shape + entry->ndim);
    shape[0] = 1;
    const size_t bytes = entry->size / static_cast<size_t>(sample.count);
    std::vector<std::vector<char>> rows;
    for (size_t i = 0; i < static_cast<size_t>(sample.count); ++i) {
      const char* begin = static_cast<const char*>(entry->data) + i * bytes;
      rows.emplace_back(begin, begin + bytes);
    }
    sample.shapes.push_back(std::move(shape));
    sample.rows.push_back(std::move(rows));
  }
  return sample;
}

// The golden inputs of most rows, or zeros.
Sample best_sample(const aot::Package& package, const Contract& contract) {
  Sample best;
  for (const auto& entries : golden_sets(package, contract)) {
    Sample sample = cut(entries);
    if (sample.count > best.count) best = std::move(sample);
  }
  return best.count > 0 ? best : zeros(contract);
}

// Rows begin, begin + 1 … of the sample, again from its first after its last.
Outputs run_rows(const Sample& sample, const Contract& contract, aot::Session& session,
                 int64_t begin, int64_t count) {
  std::vector<std::vector<char>> memory(sample.rows.size());
  std::vector<aot::Tensor> inputs;
  for (size_t i = 0; i < sample.rows.size(); ++i) {
    for (int64_t row = begin; row < begin + count; ++row) {
      const auto& bytes = sample.rows[i][static_cast<size_t>(row % sample.count)];
      memory[i].insert(memory[i].end(), bytes.begin(), bytes.end());
    }
    std::vector<int64_t> shape = sample.shapes[i];
    shape[0] = count;
    inputs.push_back(
        aot::Tensor::borrow(memory[i].data(), contract.inputs[i].type->dtype, shape, {}));
  }
  aot::RunOptions options;
  options.host_outputs = true;
  return Outputs(session.run(inputs, options).value());
}

// Element `index` as a number; half types by their bits.
double number(const DLDataType dtype, const void* data, size_t index) {
  const auto at = [data, index](auto like) {
    decltype(like) value;
    std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(value), sizeof(value));
    return static_cast<double>(value);
  };
  if (dtype.code == kDLFloat && dtype.bits == 32) return at(float{});
  if (dtype.code == kDLFloat && dtype.bits == 64) return at(double{});
  if (dtype.code == kDLBfloat) {
    uint16_t bits;
    std::memcpy(&bits, static_cast<const char*>(data) + index * 2, 2);
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return static_cast<double>(value);
  }
  if (dtype.code == kDLFloat) {
    uint16_t bits;
    std::memcpy(&bits, static_cast<const char*>(data) + index * 2, 2);
    const int exponent = (bits >> 10) & 31;
    const double digits = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31) return digits != 0 ? NAN : sign * INFINITY;
    return sign *
           (exponent == 0 ? std::ldexp(digits, -24) : std::ldexp(digits + 1024, exponent - 25));
  }
  switch (dtype.bits) {
    case 8:
      return dtype.code == kDLInt ? at(int8_t{}) : at(uint8_t{});
    case 16:
      return dtype.code == kDLInt ? at(int16_t{}) : at(uint16_t{});
    case 32:
      return dtype.code == kDLInt ? at(int32_t{}) : at(uint32_t{});
    default:
      return dtype.code == kDLInt ? at(int64_t{}) : at(uint64_t{});
  }
}

// True where a row's numbers are those that it gets alone, but for another order of sums: that is
// far below what a row from elsewhere in the batch would move.
bool same_row(const aot::Tensor& all, int64_t row, const aot::Tensor& alone) {
  const auto count = static_cast<size_t>(alone.elements());
  const DLDataType dtype = alone.dtype();
  const bool whole = dtype.code == kDLInt || dtype.code == kDLUInt || dtype.code == kDLBool;
  const double share = whole ? 0 : dtype.bits == 16 ? 5e-2 : 1e-3;
  double scale = 0;
  double difference = 0;
  for (size_t i = 0; i < count; ++i) {
    const double a = number(dtype, all.raw(), static_cast<size_t>(row) * count + i);
    const double b = number(dtype, alone.raw(), i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (std::isinf(a) || std::isinf(b) || std::isnan(a) || std::isnan(b)) {
      if (a == b) continue;
      return false;
    }
    scale = std::max(scale, std::abs(b));
    difference = std::max(difference, std::abs(a - b));
  }
  return difference <= share * scale;
}

void check_rows(const Sample& sample, const Contract& contract, aot::Session& session,
                int64_t max_batch) {
  const int64_t count = std::min({sample.count, max_batch, int64_t{8}});
  if (count < 2) return;
  const Outputs all = run_rows(sample, contract, session, 0, count);
  for (int64_t row = 0; row < count; ++row) {
    const Outputs alone = run_rows(sample, contract, session, row, 1);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].size(0) == count && same_row(all[i], row, alone[i])) continue;
      throw aot::Error(AOT_INVALID_ARGUMENT,
                       "model '" + contract.model + "': a row of output '" +
                           contract.outputs[i].name +
                           "' depends on the rows beside it, so requests must not be joined; set "
                           "\"max_batch\" to 1");
    }
  }
}

// Runs of one size.
struct Timing {
  int64_t rows = 0;
  int runs = 0;
  double least_s = std::numeric_limits<double>::infinity();
  double spent_s = 0;

  bool over() const { return spent_s >= kMostSeconds; }
  bool enough() const { return over() || (runs >= kLeastRuns && runs * least_s >= kLeastSeconds); }
};

// The sizes in turn and equally often, until the last is known: a slow moment of the machine is not
// all that one of them is known by, while another had thousands of quick runs.
Latency least_times(const Sample& sample, const Contract& contract, aot::Session& session,
                    int64_t max_batch) {
  std::vector<Timing> timings;
  for (int64_t rows = 1; rows < max_batch; rows *= 2) timings.push_back({rows});
  timings.push_back({max_batch});
  // Resolves the sizes.
  for (const Timing& timing : timings) run_rows(sample, contract, session, 0, timing.rows);
  const auto enough = [](const Timing& timing) { return timing.enough(); };
  while (!std::all_of(timings.begin(), timings.end(), enough)) {
    for (Timing& timing : timings) {
      if (timing.over()) continue;
      const Clock::time_point begun = Clock::now();
      run_rows(sample, contract, session, 0, timing.rows);
      const double seconds = seconds_between(begun, Clock::now());
      timing.least_s = std::min(timing.least_s, seconds);
      timing.spent_s += seconds;
      ++timing.runs;
    }
  }
  Latency latency;
  for (const Timing& timing : timings) latency.set(timing.rows, timing.least_s);
  return latency;
}

}  // namespace

Latency probe_batches(const aot::Package& package, const Contract& contract, aot::Session& session,
                      int64_t max_batch) {
  const Dim& dim = contract.inputs[0].dims[0];
  if (dim.max != -1) max_batch = std::min(max_batch, dim.max);
  const Sample sample = best_sample(package, contract);
  if (dim.min > 1) return {};  // rows cannot be looked at one by one
  check_rows(sample, contract, session, max_batch);
  return least_times(sample, contract, session, max_batch);
}

void warm_up(const aot::Package& package, const Contract& contract, aot::Session& session) {
  std::vector<std::vector<int64_t>> shapes = zeros(contract).shapes;
  for (const auto& entries : golden_sets(package, contract)) {
    shapes.clear();
    for (const aot_entry_info* entry : entries) {
      shapes.emplace_back(entry->shape, entry->shape + entry->ndim);
    }
    break;
  }
  std::vector<aot::Tensor> inputs;
  std::vector<const DLTensor*> views;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const DLDataType dtype = contract.inputs[i].type->dtype;
    inputs.push_back(aot::Tensor::borrow(nullptr, dtype, shapes[i], {}));
  }
  for (const aot::Tensor& input : inputs) views.push_back(&input.view());
  // Sizes that belong together are the model's to know: a refusal here is no fault of its.
  if (const auto made = session.prewarm(views.data(), views.size()); made.ok()) return;
}

}  // namespace serve
