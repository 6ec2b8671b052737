#include "tensor/cpu/gemm/thin/gemm_int8.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/quantized_linear.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using namespace tessera::kernels::cpu;
using ops::QuantizedWeight;

namespace {

struct Sizes {
  int64_t m, n, k;
};
// Around groups of rows (4), of columns (3, 4, 12, 96), steps along k (4 to 16) and prefetched rows.
const Sizes edges[] = {{1, 2, 1},    {1, 3, 16},   {2, 4, 31},  {3, 5, 33},    {4, 12, 64},    {5, 13, 7},
                       {6, 97, 15},  {7, 96, 40},  {8, 25, 48}, {11, 100, 9},  {16, 47, 65},   {1, 1300, 129},
                       {2, 5, 2500}, {9, 7, 8300}, {17, 30, 9}, {20, 300, 65}, {40, 70, 20000}};

/// Integers of every value from -127 to 127, and scales that are powers of two.
QuantizedWeight weight_of(int64_t n, int64_t k) {
  const QuantizedWeight w{Tensor::empty({n, k}, u8), Tensor::empty({n}, f32)};
  for (int64_t i = 0; i < n * k; ++i)
    static_cast<int8_t*>(w.values.raw_data())[i] = static_cast<int8_t>(i * 7919 % 255 - 127);
  for (int64_t j = 0; j < n; ++j) w.scales.data<float>()[j] = std::ldexp(1.0f, static_cast<int>(j % 9) - 12);
  return w;
}

double at(const Tensor& x, int64_t i) {
  return x.data<double>()[i];
}

/// x W^T + bias in f64, and in `magnitudes` the sums of the terms' absolute values.
Tensor by_definition(const Tensor& x, const QuantizedWeight& w, const Tensor& bias,
                     const Tensor& magnitudes) {
  const int64_t m = x.size(0), k = x.size(1), n = w.values.size(0);
  const Tensor a = to_f64(x), added = to_f64(bias), y = Tensor::empty({m, n}, f64);
  const auto* const q = static_cast<const int8_t*>(w.values.raw_data());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += at(a, i * k + p) * q[j * k + p];
        magnitude += std::abs(at(a, i * k + p) * q[j * k + p]);
      }
      const double scale = w.scales.data<float>()[j];
      y.data<double>()[i * n + j] = scale * sum + at(added, j);
      magnitudes.data<double>()[i * n + j] = scale * magnitude + std::abs(at(added, j));
    }
  return y;
}

std::vector<Isa> sets() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    if (isa_available(isa)) all.push_back(isa);
  return all;
}

/// Values with all bits of an f32 in use, so that sums round differently in another order.
Tensor uneven(const Shape& shape, DType dtype, double first) {
  const Tensor x = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>(std::sin(first + 1.37 * static_cast<double>(i)));
  return ops::cast(x, dtype);
}

}  // namespace

TEST_CASE("int8 product: every edge, x of f32 and bf16, on each instruction set, equals its definition") {
  for (const Sizes& s : edges) {
    const QuantizedWeight w = weight_of(s.n, s.k);
    for (const DType dtype : {f32, bf16}) {
      const Tensor x = random_tensor({s.m, s.k}, dtype, 1), bias = random_tensor({s.n}, dtype, 3);
      const Tensor magnitudes = Tensor::empty({s.m, s.n}, f64),
                   expected = by_definition(x, w, bias, magnitudes);
      for (const Isa isa : sets()) {
        CAPTURE(name(isa));
        CAPTURE(dtype);
        CAPTURE(s.m);
        CAPTURE(s.n);
        CAPTURE(s.k);
        const IsaScope scope(isa);
        const Tensor y = to_f64(ops::quantized_linear(x, w, bias));
        // Products of 14 bits: an f32 holds sums of 1024 of them exactly. Longer ones, and those of many
        // rows, have the error of f32 sums; many rows may also round before a bias of at most 1 is added.
        const bool is_thin = s.m <= thin_rows;
        const double sum_error = s.k <= 1024 && is_thin ? 0 : std::sqrt(static_cast<double>(s.k)) * 0x1p-22;
        const double rounding = dtype == bf16 ? 0x1p-8 : 0x1p-24;
        double worst = 0;
        for (int64_t i = 0; i < y.numel(); ++i) {
          const double size = std::abs(at(expected, i)), before_bias = is_thin ? 0 : size + 1;
          const double bound = rounding * (size + before_bias) + (sum_error + 0x1p-23) * at(magnitudes, i);
          worst = std::max(worst, std::abs(at(y, i) - at(expected, i)) / bound);
        }
        CHECK(worst <= 1);
      }
    }
  }
}

TEST_CASE("int8 product: the largest floats stay finite") {
  const float largest = std::numeric_limits<float>::max();
  for (const Isa isa : sets()) {
    const IsaScope scope(isa);
    const QuantizedWeight w = ops::quantize_rows(Tensor::from<float>({largest, -largest}).view({1, 2}));
    const Tensor back = ops::dequantize_rows(w);
    CHECK(back.data<float>()[0] == doctest::Approx(largest));
    CHECK(back.data<float>()[1] == doctest::Approx(-largest));
  }
}

TEST_CASE("int8 product: a row's bits depend neither on the other rows nor on the number of threads") {
  const int threads_before = num_threads();
  const QuantizedWeight w = ops::quantize_rows(uneven({1009, 301}, f32, 0.7));
  for (const Isa isa : sets())
    for (const DType dtype : {f32, bf16}) {
      const IsaScope scope(isa);
      const Tensor x = uneven({16, 301}, dtype, 0.1);
      set_num_threads(1);
      const Tensor all = ops::quantized_linear(x, w);
      for (const int64_t rows : {1, 2, 3, 7, 16})
        for (const int threads : {1, 2, 3}) {
          set_num_threads(threads);
          CHECK(same_bits(ops::quantized_linear(x.narrow(0, 16 - rows, rows), w),
                          all.narrow(0, 16 - rows, rows)));
        }
      // A column does not depend on its position either.
      const QuantizedWeight few{w.values.narrow(0, 5, 7), w.scales.narrow(0, 5, 7)};
      CHECK(same_bits(ops::quantized_linear(x, few), all.narrow(1, 5, 7).contiguous()));
      set_num_threads(threads_before);
    }
}
