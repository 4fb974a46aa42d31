// Inputs that borrow their memory, and outputs that own it. Included by aot.hpp.
#ifndef AOT_TENSOR_HPP_
#define AOT_TENSOR_HPP_

#include <complex>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "aot/abi.h"

namespace aot {

// Element types that C++ has no type for: borrow them as bits.
struct float16 {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};
struct float8_e4m3fn {
  uint8_t bits;
};
struct float8_e4m3fnuz {
  uint8_t bits;
};
struct float8_e5m2 {
  uint8_t bits;
};
struct float8_e5m2fnuz {
  uint8_t bits;
};
struct float8_e8m0fnu {
  uint8_t bits;
};

// DLPack's name of a C++ element type. Of the float8 types by number: a program may have included
// an official header of DLPack 1.0, which has no names for them.
template <typename T>
constexpr DLDataType dtype_of() {
  using E = std::remove_cv_t<T>;
  constexpr auto bits = static_cast<uint8_t>(sizeof(E) * 8);
  if constexpr (std::is_same_v<E, bool>) {
    return {kDLBool, 8, 1};
  } else if constexpr (std::is_same_v<E, float16>) {
    return {kDLFloat, 16, 1};
  } else if constexpr (std::is_same_v<E, bfloat16>) {
    return {kDLBfloat, 16, 1};
  } else if constexpr (std::is_same_v<E, float8_e4m3fn>) {
    return {uint8_t{10}, 8, 1};
  } else if constexpr (std::is_same_v<E, float8_e4m3fnuz>) {
    return {uint8_t{11}, 8, 1};
  } else if constexpr (std::is_same_v<E, float8_e5m2>) {
    return {uint8_t{12}, 8, 1};
  } else if constexpr (std::is_same_v<E, float8_e5m2fnuz>) {
    return {uint8_t{13}, 8, 1};
  } else if constexpr (std::is_same_v<E, float8_e8m0fnu>) {
    return {uint8_t{14}, 8, 1};
  } else if constexpr (std::is_floating_point_v<E>) {
    return {kDLFloat, bits, 1};
  } else if constexpr (std::is_same_v<E, std::complex<float>> ||
                       std::is_same_v<E, std::complex<double>>) {
    return {kDLComplex, bits, 1};
  } else {
    static_assert(std::is_integral_v<E>, "not an element type");
    return {std::is_signed_v<E> ? uint8_t{kDLInt} : uint8_t{kDLUInt}, bits, 1};
  }
}

// An input that borrows its memory, or an output that owns it. Move-only.
class Tensor {
 public:
  using Shape = std::vector<int64_t>;

  // A C-contiguous input of typed elements; `data` must outlive the tensor.
  template <typename T>
  static Tensor borrow(const T* data, Shape shape) {
    return borrow(data, dtype_of<T>(), std::move(shape), {});
  }

  // An input with any type and strides (in elements; empty: C-contiguous).
  static Tensor borrow(const void* data, DLDataType dtype, Shape shape, Shape strides,
                       DLDevice device = {kDLCPU, 0}) {
    auto layout = std::make_unique<Layout>(Layout{std::move(shape), std::move(strides)});
    DLTensor view{};
    view.data = const_cast<void*>(data);  // written only where the input's info says `changed`
    view.device = device;
    view.ndim = static_cast<int32_t>(layout->shape.size());
    view.dtype = dtype;
    view.shape = layout->shape.data();
    view.strides = layout->strides.empty() ? nullptr : layout->strides.data();
    return Tensor(view, std::move(layout), nullptr);
  }

  // A view of memory that another owns, who keeps its sizes and strides too.
  static Tensor view_of(const DLTensor& view) { return Tensor(view, nullptr, nullptr); }

  // Takes over an output of the C interface.
  static Tensor adopt(DLManagedTensorVersioned* managed) {
    return Tensor(managed->dl_tensor, nullptr, Managed(managed));
  }

  // The view that DLPack consumers read; lives as long as this tensor is not moved from.
  const DLTensor& view() const { return view_; }

  int32_t rank() const { return view_.ndim; }
  int64_t size(int32_t axis) const { return view_.shape[axis]; }
  Shape shape() const { return Shape(view_.shape, view_.shape + view_.ndim); }
  DLDataType dtype() const { return view_.dtype; }

  // The product of the sizes.
  int64_t elements() const {
    int64_t count = 1;
    for (int32_t i = 0; i < view_.ndim; ++i) count *= view_.shape[i];
    return count;
  }

  // The first element. T must be the tensor's type; nullptr if it is not.
  template <typename T>
  const T* data() const {
    constexpr DLDataType expected = dtype_of<T>();
    if (view_.dtype.code != expected.code || view_.dtype.bits != expected.bits) return nullptr;
    return static_cast<const T*>(raw());
  }

  // The first byte of the first element.
  const void* raw() const { return static_cast<const char*>(view_.data) + view_.byte_offset; }

  // Gives an output away, to a consumer that calls its deleter; nullptr for a borrowed tensor.
  DLManagedTensorVersioned* release() { return managed_.release(); }

 private:
  struct Layout {
    Shape shape;
    Shape strides;
  };
  struct Delete {
    void operator()(DLManagedTensorVersioned* managed) const { managed->deleter(managed); }
  };
  using Managed = std::unique_ptr<DLManagedTensorVersioned, Delete>;

  Tensor(const DLTensor& view, std::unique_ptr<Layout> layout, Managed managed)
      : view_(view), layout_(std::move(layout)), managed_(std::move(managed)) {}

  DLTensor view_;
  std::unique_ptr<Layout> layout_;  // of a borrowed tensor
  Managed managed_;                 // of an output
};

}  // namespace aot

#endif  // AOT_TENSOR_HPP_
