extern "C" void k0(const aot_kernel_args* args, int64_t begin, int64_t end) {
  const float* const p0 = static_cast<const float*>(args->buffers[0]);
  float* const p1 = static_cast<float*>(args->buffers[1]);
  constexpr int L0 = aot::native_lanes<float>();
  constexpr int W0 = 4 * L0;
  constexpr int L1 = aot::native_lanes<float>();
  constexpr int W1 = 2 * L1;
  constexpr int L2 = aot::native_lanes<float>();
  constexpr int W2 = 2 * L2;
  if (begin >= end) return;
  for (int64_t i0 = begin; i0 < end; ++i0) {
    aot::Vec<float, W0> acc1 = aot::Vec<float, W0>(aot::least<float>());
    {
      int64_t i1 = 0;
      for (; i1 + W0 <= 256; i1 += W0) {
        const aot::Vec<float, W0> x2 = aot::load<float, W0>(p0 + (i1 + int64_t{256}*i0));
        acc1 = aot::maximum(acc1, x2);
      }
    }
    const aot::Vec<float, 1> x3 = aot::Vec<float, 1>(aot::reduce_max(acc1));
    aot::Vec<float, W1> acc4 = aot::Vec<float, W1>(0);
    {
      int64_t i1 = 0;
      for (; i1 + W1 <= 256; i1 += W1) {
        const aot::Vec<float, W1> x5 = aot::load<float, W1>(p0 + (i1 + int64_t{256}*i0));
        const aot::Vec<float, W1> x6 = x5 - aot::spread<W1>(x3);
        const aot::Vec<float, W1> x7 = aot::exp(x6);
        acc4 = acc4 + x7;
      }
    }
    const aot::Vec<float, 1> x8 = aot::Vec<float, 1>(aot::reduce_sum(acc4));
    {
      int64_t i1 = 0;
      for (; i1 + W2 <= 256; i1 += W2) {
        const aot::Vec<float, W2> x9 = aot::load<float, W2>(p0 + (i1 + int64_t{256}*i0));
        const aot::Vec<float, W2> x10 = x9 - aot::spread<W2>(x3);
        const aot::Vec<float, W2> x11 = aot::exp(x10);
        const aot::Vec<float, W2> x12 = x11 / aot::spread<W2>(x8);
        aot::store(p1 + (i1 + int64_t{256}*i0), x12);
      }
    }
  }
}
// k0: k0(x, o; ) work 32, scratch 0
