namespace {
struct k0_config : aot::tmpl::MatmulConfig {
  using A = float;
  using B = float;
  static constexpr int64_t M = 64;
  static constexpr int64_t N = 128;
  static constexpr int64_t K = 96;
  static constexpr bool COPY_A = false;
  static constexpr bool STRIDED_B = false;
  static constexpr aot::tmpl::Along A_ALONG = aot::tmpl::Along::kDepth;
};
}
extern "C" void k0(const aot_kernel_args* args, int64_t begin, int64_t end) {
  const float* const p0 = static_cast<const float*>(args->buffers[0]);
  const float* const p1 = static_cast<const float*>(args->buffers[1]);
  const float* const p2 = static_cast<const float*>(args->buffers[2]);
  float* const p3 = static_cast<float*>(args->buffers[3]);
  if (begin >= end) return;
  const int64_t first = begin, last = end;
  const auto epilogue = [=](int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const float* tile, int64_t ld) {
    constexpr int L0 = aot::native_lanes<float>();
    const float* const tile_origin = tile - m0 * ld - n0;
    for (int64_t first = m0; first < m1; first += aot::kRowsAtOnce) {
      const int64_t last = aot::last_at_once(first, m1);
      {
        int64_t column = n0;
        for (; column + L0 <= n1; column += L0) {
          const aot::Vec<float, L0> x1 = aot::load<float, L0>(p2 + (column));
          for (int64_t row = first; row < last; ++row) {
            const aot::Vec<float, L0> x2 = aot::load<float, L0>(tile_origin + (column + ld*row));
            const aot::Vec<float, L0> x3 = x2 + x1;
            const aot::Vec<float, L0> x4 = aot::tanh(x3);
            aot::store(p3 + (column + int64_t{128}*row), x4);
          }
        }
      }
    }
  };
  aot::tmpl::MatmulArgs<k0_config> call;
  call.a = reinterpret_cast<const float*>(p0 + (0));
  call.a_batch = 0;
  call.a_row = 96;
  call.a_col = 1;
  call.b = reinterpret_cast<const float*>(p1);
  call.b_batch = 0;
  call.b_row = 0;
  call.b_col = 0;
  call.m = 64;
  call.n = 128;
  call.k = 96;
  call.out = p3 + (0);
  call.out_row = 512;
  call.out_column = 4;
  aot::tmpl::matmul(call, first, last, args->scratch, epilogue);
}
