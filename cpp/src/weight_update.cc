#include "weight_update.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "contract.h"
#include "error.h"
#include "half.h"
#include "memory.h"
#include "strided_copy.h"

namespace aot_rt {
namespace {

constexpr size_t kMostNamed = 8;  // weights that a message lists

std::string shape_text(const int64_t* shape, size_t rank) {
  std::string text = "(";
  for (size_t i = 0; i < rank; ++i) text += cat(i == 0 ? "" : ", ", shape[i]);
  return text + ")";
}

std::string list_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    text += cat(i == 0 ? "'" : ", '", names[i], "'");
  }
  if (names.size() > kMostNamed) text += cat(" and ", names.size() - kMostNamed, " more");
  return text;
}

// The product of sizes from axis `first`; -1 when it overflows or a size is negative.
int64_t elements_from(const DLTensor& tensor, int32_t first) {
  int64_t count = 1;
  for (int32_t i = first; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0 || __builtin_mul_overflow(count, tensor.shape[i], &count)) return -1;
  }
  return count;
}

// The type of a host tensor that can be read; `what` is for messages.
const DType& check_tensor(const DLTensor& tensor, const std::string& what) {
  const DType* dtype = find_dtype(tensor.dtype);
  if (dtype == nullptr) {
    fail(AOT_INVALID_ARGUMENT, what, " has dtype ", dlpack_name(tensor.dtype));
  }
  if (!on_host(tensor)) {
    fail(AOT_INVALID_ARGUMENT, what, " is not in the host's memory: copy it there");
  }
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    fail(AOT_INVALID_ARGUMENT, what, " has no shape");
  }
  if (tensor.data == nullptr && elements_from(tensor, 0) != 0) {
    fail(AOT_INVALID_ARGUMENT, what, " has no data");
  }
  return *dtype;
}

SharedBytes share(Block&& block) {
  auto owner = std::make_shared<Block>(std::move(block));
  return {owner, owner->data()};
}

// A contiguous copy. Sizes are checked.
Block copy_of(const DLTensor& tensor, const DType& dtype) {
  const auto rank = static_cast<size_t>(tensor.ndim);
  const std::vector<int64_t> sizes(tensor.shape, tensor.shape + rank);
  std::vector<int64_t> dense(rank, 1);
  for (size_t axis = rank; axis-- > 1;) dense[axis - 1] = dense[axis] * sizes[axis];
  std::vector<int64_t> strides = dense;
  if (tensor.strides != nullptr) strides.assign(tensor.strides, tensor.strides + rank);
  const auto bytes =
      static_cast<size_t>(elements_from(tensor, 0)) * static_cast<size_t>(dtype.size);
  Block copy(default_allocator(), std::max<size_t>(bytes, 1), "weights");
  if (bytes == 0) return copy;
  const auto* from = static_cast<const uint8_t*>(tensor.data) + tensor.byte_offset;
  if (strides == dense) {
    std::memcpy(copy.data(), from, bytes);
  } else {
    strided_copy(copy.data(), dense, from, strides, sizes, dtype.size);
  }
  return copy;
}

template <typename Float>
Float read_element(const uint8_t* data, int64_t index, const DType& dtype) {
  const uint8_t* at = data + index * dtype.size;
  if (dtype.size == 8) {
    double value = 0;
    std::memcpy(&value, at, sizeof(value));
    return static_cast<Float>(value);
  }
  if (dtype.size == 4) {
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return static_cast<Float>(value);
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return static_cast<Float>(dtype.code == kDLBfloat ? from_bfloat16(bits) : from_float16(bits));
}

template <typename Float>
void write_element(uint8_t* data, int64_t index, const DType& dtype, Float value) {
  uint8_t* at = data + index * dtype.size;
  if (dtype.size == 8) {
    const auto exact = static_cast<double>(value);
    std::memcpy(at, &exact, sizeof(exact));
    return;
  }
  const auto single = static_cast<float>(value);
  if (dtype.size == 4) {
    std::memcpy(at, &single, sizeof(single));
    return;
  }
  const uint16_t bits = dtype.code == kDLBfloat ? to_bfloat16(single) : to_float16(single);
  std::memcpy(at, &bits, sizeof(bits));
}

template <typename Float>
std::vector<Float> floats_of(const DLTensor& tensor, const DType& dtype) {
  const Block dense = copy_of(tensor, dtype);
  std::vector<Float> values(static_cast<size_t>(elements_from(tensor, 0)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = read_element<Float>(dense.data(), static_cast<int64_t>(i), dtype);
  }
  return values;
}

// One weight being given a new value.
class Updater {
 public:
  Updater(const WeightSpec& spec, const WeightUpdate& update)
      : spec_(spec), update_(update), what_(cat("weight '", update.name, "'")) {}

  SharedBytes apply(const uint8_t* present) const {
    const bool low_rank = update_.up != nullptr && update_.down != nullptr;
    if ((update_.value != nullptr) == low_rank ||
        (update_.up == nullptr) != (update_.down == nullptr)) {
      fail(AOT_INVALID_ARGUMENT, what_, " needs either a value or both factors, up and down");
    }
    if (update_.value != nullptr) check_value();
    if (!adds()) return share(copy_of(*update_.value, *spec_.dtype));
    if (spec_.dtype->code != kDLFloat && spec_.dtype->code != kDLBfloat) {
      fail(AOT_INVALID_ARGUMENT, what_, " has dtype ", spec_.dtype->name,
           ": only floating-point weights can be added to");
    }
    if (present == nullptr) {
      fail(AOT_INVALID_ARGUMENT, what_,
           " cannot be added to, because the package does not keep "
           "its value: package with --keep-originals, or give the sum");
    }
    return spec_.dtype->size == 8 ? sum<double>(present) : sum<float>(present);
  }

  bool adds() const { return update_.add || update_.value == nullptr; }

 private:
  void check_value() const {
    const DLTensor& value = *update_.value;
    const DType& dtype = check_tensor(value, what_);
    if (&dtype != spec_.dtype) {
      fail(AOT_INVALID_ARGUMENT, what_, " has dtype ", dtype.name, ", the model has ",
           spec_.dtype->name);
    }
    const auto rank = static_cast<size_t>(value.ndim);
    if (rank != spec_.shape.size() ||
        !std::equal(value.shape, value.shape + rank, spec_.shape.begin())) {
      fail(AOT_SHAPE_MISMATCH, what_, " has shape ", shape_text(value.shape, rank),
           ", the model has ", shape_text(spec_.shape.data(), spec_.shape.size()));
    }
  }

  template <typename Float>
  SharedBytes sum(const uint8_t* present) const {
    const DType& dtype = *spec_.dtype;
    Block result(default_allocator(), std::max<size_t>(static_cast<size_t>(spec_.bytes), 1),
                 "weights");
    const auto add = [&](int64_t index, Float delta) {
      write_element(result.data(), index, dtype,
                    read_element<Float>(present, index, dtype) + delta);
    };
    if (update_.value != nullptr) {
      const std::vector<Float> delta = floats_of<Float>(*update_.value, dtype);
      const auto scale = static_cast<Float>(update_.scale);
      for (size_t i = 0; i < delta.size(); ++i) add(static_cast<int64_t>(i), scale * delta[i]);
    } else {
      add_product<Float>(add);
    }
    return share(std::move(result));
  }

  // Row by row, so that the product is never stored whole.
  template <typename Float, typename Add>
  void add_product(Add add) const {
    const DType& up_type = check_factor(*update_.up, "up");
    const DType& down_type = check_factor(*update_.down, "down");
    const int64_t rows = spec_.shape.empty() ? 0 : spec_.shape[0];
    const int64_t columns = rows == 0 ? 0 : spec_.bytes / spec_.dtype->size / rows;
    const int64_t rank = update_.down->shape[0];
    if (update_.up->shape[0] != rows || elements_from(*update_.up, 1) != rank ||
        (rows != 0 && elements_from(*update_.down, 1) != columns)) {
      fail(AOT_SHAPE_MISMATCH, what_, " has shape ",
           shape_text(spec_.shape.data(), spec_.shape.size()), ": up ",
           shape_text(update_.up->shape, static_cast<size_t>(update_.up->ndim)), " times down ",
           shape_text(update_.down->shape, static_cast<size_t>(update_.down->ndim)),
           " is not of that shape");
    }
    const std::vector<Float> up = floats_of<Float>(*update_.up, up_type);
    const std::vector<Float> down = floats_of<Float>(*update_.down, down_type);
    std::vector<Float> row(static_cast<size_t>(columns));
    for (int64_t i = 0; i < rows; ++i) {
      std::fill(row.begin(), row.end(), Float{0});
      for (int64_t k = 0; k < rank; ++k) {
        const Float factor = up[static_cast<size_t>(i * rank + k)];
        const Float* from = down.data() + k * columns;
        for (int64_t j = 0; j < columns; ++j) row[static_cast<size_t>(j)] += factor * from[j];
      }
      const auto scale = static_cast<Float>(update_.scale);
      for (int64_t j = 0; j < columns; ++j)
        add(i * columns + j, scale * row[static_cast<size_t>(j)]);
    }
  }

  const DType& check_factor(const DLTensor& factor, const char* name) const {
    const std::string what = cat(what_, ", ", name);
    const DType& dtype = check_tensor(factor, what);
    if (dtype.code != kDLFloat && dtype.code != kDLBfloat) {
      fail(AOT_INVALID_ARGUMENT, what, " has dtype ", dtype.name, ", must be a floating-point one");
    }
    if (factor.ndim < 2 || elements_from(factor, 0) < 0) {
      fail(AOT_SHAPE_MISMATCH, what, " must have two dimensions or more, of sizes from 0");
    }
    return dtype;
  }

  const WeightSpec& spec_;
  const WeightUpdate& update_;
  std::string what_;
};

// Tied weights may come by all of their names, as long as they are the same.
bool differs(const WeightSpec& spec, const SharedBytes& first, const SharedBytes& second) {
  return std::memcmp(first.get(), second.get(), static_cast<size_t>(spec.bytes)) != 0;
}

void check_complete(const Plan& plan, const Changed& changed) {
  std::vector<std::string> missing;
  for (size_t id = 0; id < plan.weights.size(); ++id) {
    if (plan.weights[id].required && !changed[id]) missing.push_back(plan.weights[id].name);
  }
  if (missing.empty()) return;
  fail(AOT_INVALID_ARGUMENT, "weights are missing: ", list_names(missing),
       ". Give all of the model's, or say that the replacement is partial");
}

}  // namespace

Replacement apply_updates(const Plan& plan, const std::vector<WeightUpdate>& updates,
                          const WeightValues& before, const ReplaceOptions& options) {
  std::map<std::string_view, size_t> positions;
  for (size_t id = 0; id < plan.weights.size(); ++id) {
    positions.emplace(plan.weights[id].name, id);
    for (const std::string& alias : plan.weights[id].aliases) positions.emplace(alias, id);
  }
  Replacement made{before, Changed(plan.weights.size(), false)};
  if (options.restart) made.values.assign(plan.weights.size(), WeightValue{});
  const WeightValues base = made.values;
  std::vector<std::string> unknown;
  for (const WeightUpdate& update : updates) {
    const auto found = positions.find(update.name);
    if (found == positions.end()) {
      unknown.push_back(update.name);
      continue;
    }
    const size_t id = found->second;
    const WeightSpec& spec = plan.weights[id];
    const Updater updater(spec, update);
    SharedBytes bytes = updater.apply(host_bytes(spec, base[id]));
    if (made.changed[id] && (updater.adds() || differs(spec, made.values[id].bytes, bytes))) {
      fail(AOT_INVALID_ARGUMENT, "weight '", spec.name, "' is given twice, with other values",
           spec.aliases.empty() ? "" : ": it is tied, and has several names");
    }
    made.changed[id] = true;
    made.values[id] = {WeightValue::State::kKept, std::move(bytes)};
  }
  if (!unknown.empty() && !options.ignore_unknown) {
    fail(AOT_INVALID_ARGUMENT, "the model has no weights ", list_names(unknown));
  }
  if (!options.partial) check_complete(plan, made.changed);
  return made;
}

std::vector<WeightUpdate> updates_from(const Container& file, std::vector<DLTensor>* tensors) {
  std::vector<WeightUpdate> updates;
  tensors->reserve(file.entries().size());  // updates point into it
  for (const Entry& entry : file.entries()) {
    DLTensor tensor{};
    tensor.data = const_cast<uint8_t*>(entry.bytes.data);
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(entry.shape.size());
    // Types that no weight has stay without a name, and are refused if a weight is to take them.
    if (const DType* dtype = find_safetensors_dtype(entry.dtype)) tensor.dtype = to_dlpack(*dtype);
    tensor.shape = const_cast<int64_t*>(entry.shape.data());
    tensors->push_back(tensor);
    WeightUpdate update;
    update.name = entry.name;
    update.value = &tensors->back();
    updates.push_back(std::move(update));
  }
  return updates;
}

}  // namespace aot_rt
