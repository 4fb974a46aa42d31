// What both fakes stand on: memory of the fake GPU, read and written in the order of a stream.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

#define FOR_EACH_TYPE(M) \
  M(S, float) M(D, double) M(C, std::complex<float>) M(Z, std::complex<double>)

extern "C" {
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream);
int cuStreamSynchronize(void* stream);
}

using Number = std::complex<double>;
using Numbers = std::vector<Number>;

struct Handle {
  void* stream = nullptr;
};

template <class T>
Number wide(T x) {
  return Number(x);
}
inline Number wide(std::complex<float> x) { return {x.real(), x.imag()}; }

template <class T>
T narrow(Number x) {
  return T(x.real());
}
template <>
inline std::complex<float> narrow(Number x) {
  return {float(x.real()), float(x.imag())};
}
template <>
inline std::complex<double> narrow(Number x) {
  return x;
}

// Reads begin when all ahead of them in the stream is done, as the library's kernels would.
template <class T>
Numbers pull(Handle* handle, const void* at, size_t count) {
  std::vector<T> raw(count);
  cuMemcpyDtoHAsync_v2(raw.data(), reinterpret_cast<uint64_t>(at), count * sizeof(T),
                       handle->stream);
  cuStreamSynchronize(handle->stream);
  Numbers found;
  for (const T x : raw) found.push_back(wide(x));
  return found;
}

template <class T>
void push(Handle* handle, void* at, const Numbers& numbers) {
  std::vector<T> raw;
  for (const Number x : numbers) raw.push_back(narrow<T>(x));
  cuMemcpyHtoDAsync_v2(reinterpret_cast<uint64_t>(at), raw.data(), raw.size() * sizeof(T),
                       handle->stream);
  cuStreamSynchronize(handle->stream);
}

inline void push_words(Handle* handle, int* at, const std::vector<int>& words) {
  cuMemcpyHtoDAsync_v2(reinterpret_cast<uint64_t>(at), words.data(), words.size() * sizeof(int),
                       handle->stream);
  cuStreamSynchronize(handle->stream);
}
