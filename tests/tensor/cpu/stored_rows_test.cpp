// Kernels that read and write the half types in their storage: the results are those of f32 on the widened
// values, rounded once, with the same bits on every instruction set and for every length.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/dropout_blocks.h"
#include "tensor/cpu/loops/normalization_rows.h"
#include "tensor/cpu/loops/row_reductions.h"
#include "tensor/cpu/loops/stored_sums.h"
#include "tensor/cpu/loops/value_and_gradient.h"
#include "tensor/elementwise/gelu.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

const int64_t lengths[] = {1, 5, 15, 16, 17, 31, 32, 33, 48, 63, 64, 100, 129};

template <class Body>
void on_each_isa(const Body& body) {
  const FlushDenormals flushed;
  for (const Isa isa : all_isas) {
    if (!isa_available(isa)) continue;
    const IsaScope scope(isa);
    CAPTURE(name(isa));
    body();
  }
}

template <class T>
std::vector<T> values(int64_t n, double phase) {
  std::vector<T> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    x[i] = narrow<T>(static_cast<float>(3 * std::sin(1.7 * static_cast<double>(i) + phase) + 0.4));
  return x;
}
template <class T>
std::vector<float> widened(const std::vector<T>& x) {
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = widen<float>(x[i]);
  return y;
}
template <class T>
std::vector<T> rounded(const std::vector<float>& x) {
  std::vector<T> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = narrow<T>(x[i]);
  return y;
}
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
const NormalizationRows<T>& rows_of() {
  if constexpr (std::is_same_v<T, bfloat16>)
    return TESSERA_PER_ISA_BF16(normalization_rows_bf16)();
  else if constexpr (std::is_same_v<T, float16>)
    return TESSERA_PER_ISA_BF16(normalization_rows_f16)();
  else
    return TESSERA_PER_ISA_BF16(normalization_rows_f32)();
}

/// The results of a forward and a backward.
template <class T>
struct Results {
  std::vector<T> sum, y, again, dx, rounded_dx;
  std::vector<float> mean, rstd, wide_dx, dweight, dbias;
  Results(int64_t rows, int64_t n)
      : sum(rows * n),
        y(rows * n),
        again(rows * n),
        dx(rows * n),
        rounded_dx(rows * n),
        mean(rows),
        rstd(rows),
        wide_dx(rows * n),
        dweight(n, 0.5f),
        dbias(n, -0.25f) {}
};

template <class T>
Results<T> normalize(const std::vector<T>& x, const std::vector<T>& delta, const std::vector<T>& dy,
                     int64_t rows, int64_t n, bool adds, bool centered) {
  Results<T> r(rows, n);
  const std::vector<float> weight = values<float>(n, 0.9), bias = values<float>(n, 0.2);
  float* const mean = centered ? r.mean.data() : nullptr;
  const NormalizationRows<T>& kernels = rows_of<T>();
  kernels.forward(x.data(), adds ? delta.data() : nullptr, rows, n, weight.data(),
                  centered ? bias.data() : nullptr, 1e-5f, r.sum.data(), r.y.data(), mean, r.rstd.data());
  const T* const normalized = adds ? r.sum.data() : x.data();
  kernels.scale(normalized, rows, n, weight.data(), centered ? bias.data() : nullptr, mean, r.rstd.data(),
                r.again.data());
  std::vector<float> dweight = r.dweight, dbias = r.dbias;
  kernels.backward_wide(normalized, dy.data(), adds ? delta.data() : nullptr, rows, n, weight.data(), mean,
                        r.rstd.data(), r.wide_dx.data(), r.rounded_dx.data(), dweight.data(), dbias.data());
  kernels.backward(normalized, dy.data(), adds ? delta.data() : nullptr, rows, n, weight.data(), mean,
                   r.rstd.data(), r.dx.data(), r.dweight.data(), r.dbias.data());
  CHECK(same(r.dweight, dweight));
  CHECK(same(r.dbias, dbias));
  return r;
}

template <class T>
void check_normalization(int64_t rows, int64_t n, bool adds, bool centered) {
  CAPTURE(rows);
  CAPTURE(n);
  const std::vector<T> x = values<T>(rows * n, 0.3), delta = values<T>(rows * n, 1.1),
                       dy = values<T>(rows * n, 2.3);
  // The stored sum is normalized, so f32 gets it as its x.
  std::vector<float> sum = widened(x);
  for (size_t i = 0; adds && i < sum.size(); ++i)
    sum[i] = widen<float>(narrow<T>(sum[i] + widen<float>(delta[i])));
  Results<float> expected(rows, n);
  {
    const FlushDenormals flushed;
    const IsaScope scope(Isa::baseline);
    const std::vector<float> weight = values<float>(n, 0.9), bias = values<float>(n, 0.2),
                             wide_dy = widened(dy), base = widened(delta);
    float* const mean = centered ? expected.mean.data() : nullptr;
    rows_of<float>().forward(sum.data(), nullptr, rows, n, weight.data(), centered ? bias.data() : nullptr,
                             1e-5f, nullptr, expected.y.data(), mean, expected.rstd.data());
    rows_of<float>().backward(sum.data(), wide_dy.data(), adds ? base.data() : nullptr, rows, n,
                              weight.data(), mean, expected.rstd.data(), expected.dx.data(),
                              expected.dweight.data(), expected.dbias.data());
  }
  on_each_isa([&] {
    const Results<T> got = normalize(x, delta, dy, rows, n, adds, centered);
    if (adds) CHECK(same(got.sum, rounded<T>(sum)));
    CHECK(same(got.y, rounded<T>(expected.y)));
    CHECK(same(got.again, got.y));
    CHECK(same(got.rstd, expected.rstd));
    CHECK(same(got.mean, expected.mean));
    CHECK(same(got.wide_dx, expected.dx));
    CHECK(same(got.dx, rounded<T>(expected.dx)));
    CHECK(same(got.rounded_dx, got.dx));
    CHECK(same(got.dweight, expected.dweight));
    CHECK(same(got.dbias, expected.dbias));
  });
}

template <class From, class To>
void check_dropout(DType from, DType to) {
  for (const int64_t n : lengths) {
    const std::vector<From> x = values<From>(n, 0.4);
    const std::vector<To> base = values<To>(n, 1.4);
    std::vector<uint32_t> words(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) words[i] = static_cast<uint32_t>(i) * 2654435761u;
    constexpr uint32_t threshold = 0x90000000u;
    std::vector<float> dropped(x.size()), added(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      dropped[i] = words[i] < threshold ? 0.0f : widen<float>(x[i]) * 1.25f;
      added[i] = widen<float>(base[i]) + dropped[i];
    }
    on_each_isa([&] {
      std::vector<To> y(x.size());
      const DropoutBlock drop = TESSERA_PER_ISA_BF16(dropout_block)(from, to);
      drop(x.data(), nullptr, words.data(), threshold, 1.25, n, y.data());
      CHECK(same(y, rounded<To>(dropped)));
      drop(x.data(), base.data(), words.data(), threshold, 1.25, n, y.data());
      CHECK(same(y, rounded<To>(added)));
    });
  }
}

template <class T>
void check_gelu(DType type) {
  for (const int64_t n : lengths) {
    std::vector<T> x = values<T>(n, 0.1);
    x[n / 2] = narrow<T>(n % 2 ? -20.0f : 20.0f);
    const std::vector<T> dy = values<T>(n, 0.8);
    std::vector<float> value(x.size()), gradient(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      value[i] = elementwise::gelu(widen<float>(x[i]));
      gradient[i] = elementwise::gelu_backward(widen<float>(x[i]), widen<float>(dy[i]));
    }
    on_each_isa([&] {
      std::vector<T> y(x.size()), both(x.size()), dx = dy;
      TESSERA_PER_ISA_BF16(direct_unary_block)(UnaryOp::gelu, type)(x.data(), y.data(), n);
      TESSERA_PER_ISA_BF16(gradient_block)
      (UnaryOp::gelu, type)(x.data(), dx.data(), both.data(), dx.data(), n);
      CHECK(same(y, rounded<T>(value)));
      CHECK(same(both, y));
      CHECK(same(dx, rounded<T>(gradient)));
    });
  }
}

template <class T>
void check_column_sums(DType type) {
  for (const int64_t rows : {0, 1, 3, 4, 6, 64})
    for (const int64_t columns : lengths) {
      const int64_t stride = columns + 3;
      const std::vector<T> x = values<T>(rows * stride + 1, 0.6);
      std::vector<float> expected(static_cast<size_t>(columns));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) expected[c] += widen<float>(x[r * stride + c]);
      on_each_isa([&] {
        std::vector<float> sums(static_cast<size_t>(columns), 7.0f);
        TESSERA_PER_ISA(column_sums)(type)(x.data(), stride, rows, columns, sums.data());
        CHECK(same(sums, expected));
      });
    }
}

template <class T>
void check_sums() {
  for (const int64_t n : lengths) {
    const std::vector<T> a = values<T>(n, 0.2), b = values<T>(n, 1.9);
    std::vector<float> sum = widened(a);
    for (int64_t i = 0; i < n; ++i) sum[i] += widen<float>(b[i]);
    on_each_isa([&] {
      std::vector<T> y(a.size());
      std::vector<float> wide(a.size()), sums = widened(a);
      stored_sums<T>().add(a.data(), b.data(), n, y.data());
      stored_sums<T>().add_wide(a.data(), b.data(), n, wide.data());
      stored_sums<T>().accumulate(b.data(), n, sums.data());
      CHECK(same(y, rounded<T>(sum)));
      CHECK(same(wide, sum));
      CHECK(same(sums, sum));
    });
  }
}

}  // namespace

TEST_CASE("stored rows: a norm's results are those of f32, rounded") {
  for (const int64_t rows : {1, 2, 7})
    for (const int64_t n : lengths)
      for (const bool adds : {false, true})
        for (const bool centered : {false, true}) {
          check_normalization<bfloat16>(rows, n, adds, centered);
          check_normalization<float16>(rows, n, adds, centered);
          check_normalization<float>(rows, n, adds, centered);
        }
}

TEST_CASE("stored rows: dropout's results are those of f32, rounded, with an addend and without") {
  check_dropout<bfloat16, bfloat16>(bf16, bf16);
  check_dropout<bfloat16, float>(bf16, f32);
  check_dropout<float, bfloat16>(f32, bf16);
  check_dropout<float16, float16>(f16, f16);
  check_dropout<float16, float>(f16, f32);
  check_dropout<float, float16>(f32, f16);
  check_dropout<float, float>(f32, f32);
}

TEST_CASE("stored rows: gelu and its gradient are those of one element in f32, rounded") {
  check_gelu<bfloat16>(bf16);
  check_gelu<float16>(f16);
  check_gelu<float>(f32);
}

TEST_CASE("stored rows: sums of two rows are those of f32, rounded or not") {
  check_sums<bfloat16>();
  check_sums<float16>();
  check_sums<float>();
}

TEST_CASE("stored rows: sums of columns are added in the order of the rows") {
  check_column_sums<bfloat16>(bf16);
  check_column_sums<float16>(f16);
  check_column_sums<float>(f32);
}

}  // namespace tessera::kernels::cpu
