extern "C" void k0(const aot_kernel_args* args, int64_t begin, int64_t end) {
  const float* const p0 = static_cast<const float*>(args->buffers[0]);
  const float* const p1 = static_cast<const float*>(args->buffers[1]);
  float* const p2 = static_cast<float*>(args->buffers[2]);
  const int64_t d0 = args->sizes[0];
  constexpr int L0 = aot::native_lanes<float>();
  constexpr int W0 = 4 * L0;
  if (begin >= end) return;
  for (int64_t i0 = begin; i0 < end; ++i0) {
    aot::Vec<float, W0> acc2 = aot::Vec<float, W0>(0);
    aot::Vec<float, L0> acc3 = aot::Vec<float, L0>(0);
    {
      int64_t i1 = 0;
      for (; i1 + W0 <= 1000; i1 += W0) {
        const aot::Vec<float, W0> x4 = aot::load<float, W0>(p0 + (i1 + int64_t{1000}*i0));
        const aot::Vec<float, W0> x5 = aot::load<float, W0>(p1 + (i1 + int64_t{1000}*i0));
        const aot::Vec<float, W0> x6 = x4 + x5;
        acc2 = acc2 + x6;
      }
      for (; i1 < 1000; i1 += L0) {
        const int64_t tail1 = aot::imin(1000 - i1, L0);
        const aot::Vec<float, L0> x7 = aot::load_n<float, L0>(p0 + (i1 + int64_t{1000}*i0), tail1);
        const aot::Vec<float, L0> x8 = aot::load_n<float, L0>(p1 + (i1 + int64_t{1000}*i0), tail1);
        const aot::Vec<float, L0> x9 = x7 + x8;
        acc3 = acc3 + aot::select(aot::first_n<L0>(tail1), x9, aot::Vec<float, L0>(0));
      }
    }
    const aot::Vec<float, 1> x10 = aot::Vec<float, 1>(aot::reduce_sum(acc2, acc3));
    aot::store(p2 + (i0), x10);
  }
}
// k0: k0(a, b, o; s0) work s0, scratch 0
