// Reads and writes .npy files of the element types that packages use; for tools and examples.
#ifndef AOT_TOOLS_NPY_H_
#define AOT_TOOLS_NPY_H_

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "aot/aot.hpp"

namespace aot_tools {

// A tensor with memory of its own.
struct Array {
  DLDataType dtype{};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;   // in elements; empty: C order
  std::vector<uint64_t> storage;  // 8-byte aligned bytes

  aot::Tensor tensor() const { return aot::Tensor::borrow(storage.data(), dtype, shape, strides); }
  size_t element() const { return dtype.bits / 8u; }
  size_t elements() const {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    return count;
  }
};

struct NpyType {
  const char* descr;
  DLDataType dtype;
};

inline const std::vector<NpyType>& npy_types() {
  static const std::vector<NpyType> types = {
      {"<f8", {kDLFloat, 64, 1}},  {"<f4", {kDLFloat, 32, 1}}, {"<f2", {kDLFloat, 16, 1}},
      {"<V2", {kDLBfloat, 16, 1}}, {"<i8", {kDLInt, 64, 1}},   {"<i4", {kDLInt, 32, 1}},
      {"<i2", {kDLInt, 16, 1}},    {"|i1", {kDLInt, 8, 1}},    {"|u1", {kDLUInt, 8, 1}},
      {"|b1", {kDLBool, 8, 1}}};
  return types;
}

// Reads version 1.0 to 3.0, C order. Throws std::runtime_error with the path.
inline Array read_npy(const std::string& path) {
  const auto bad = [&path](const char* why) { return std::runtime_error(path + ": " + why); };
  std::ifstream file(path, std::ios::binary);
  char magic[8] = {};
  if (!file.read(magic, 8) || std::memcmp(magic, "\x93NUMPY", 6) != 0) throw bad("not an npy file");
  uint32_t length = 0;
  file.read(reinterpret_cast<char*>(&length), magic[6] == 1 ? 2 : 4);
  std::string header(length, ' ');
  if (!file.read(header.data(), length)) throw bad("truncated");
  if (header.find("'fortran_order': True") != std::string::npos) throw bad("Fortran order");
  Array array;
  for (const NpyType& type : npy_types()) {
    if (header.find(std::string("'") + type.descr + "'") != std::string::npos) {
      array.dtype = type.dtype;
    }
  }
  if (array.dtype.bits == 0) throw bad("unknown element type");
  const size_t open = header.find('(');
  const size_t close = header.find(')', open);
  if (close == std::string::npos) throw bad("no shape");
  for (size_t i = open + 1; i < close;) {
    size_t used = 0;
    if (header[i] >= '0' && header[i] <= '9') {
      array.shape.push_back(std::stoll(header.substr(i, close - i), &used));
    }
    i += used == 0 ? 1 : used;
  }
  const size_t bytes = array.elements() * array.element();
  array.storage.resize((bytes + 7) / 8);
  file.read(reinterpret_cast<char*>(array.storage.data()), static_cast<std::streamsize>(bytes));
  if (static_cast<size_t>(file.gcount()) != bytes) throw bad("truncated");
  return array;
}

// The elements of a tensor in C order, whatever its strides.
inline std::string dense_bytes(const DLTensor& view) {
  const size_t element = view.dtype.bits / 8u;
  size_t count = 1;
  for (int32_t i = 0; i < view.ndim; ++i) count *= static_cast<size_t>(view.shape[i]);
  std::string bytes(count * element, '\0');
  const char* data = static_cast<const char*>(view.data) + view.byte_offset;
  std::vector<int64_t> index(static_cast<size_t>(view.ndim), 0);
  for (size_t n = 0; n < count; ++n) {
    int64_t offset = 0;
    int64_t dense = 1;
    for (int32_t axis = view.ndim; axis-- > 0;) {
      const int64_t stride = view.strides != nullptr ? view.strides[axis] : dense;
      offset += index[static_cast<size_t>(axis)] * stride;
      dense *= view.shape[axis];
    }
    std::memcpy(bytes.data() + n * element, data + offset * static_cast<int64_t>(element), element);
    for (int32_t axis = view.ndim; axis-- > 0;) {
      if (++index[static_cast<size_t>(axis)] < view.shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
  return bytes;
}

// Writes version 1.0, C order. Throws std::runtime_error with the path.
inline void write_npy(const std::string& path, const aot::Tensor& tensor) {
  const DLTensor& view = tensor.view();
  std::string descr;
  for (const NpyType& type : npy_types()) {
    if (type.dtype.code == view.dtype.code && type.dtype.bits == view.dtype.bits) {
      descr = type.descr;
    }
  }
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (int32_t i = 0; i < view.ndim; ++i) header += std::to_string(view.shape[i]) + ",";
  header += "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  file.write(reinterpret_cast<const char*>(&length), 2);
  file << header << dense_bytes(view);
  if (!file.flush()) throw std::runtime_error(path + ": cannot write");
}

}  // namespace aot_tools

#endif  // AOT_TOOLS_NPY_H_
