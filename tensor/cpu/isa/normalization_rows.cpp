// Rows of layer norm and RMS norm. Forward: x is read once from memory and twice more from the first-level
// cache; backward: x and dy likewise. The variance is computed from the deviations, which keeps its precision
// when the mean is large.
#include "tensor/cpu/loops/normalization_rows.h"

#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/target.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class A>
void scale_row(const A* x, int64_t n, A mean, A rstd, const A* weight, const A* bias, A* __restrict y) {
  if (weight && bias)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
  else if (weight)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * weight[i];
  else if (bias)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd + bias[i];
  else
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd;
}

template <class A>
void forward(const A* x, const A* delta, int64_t rows, int64_t n, const A* weight, const A* bias, A eps,
             A* sum, A* y, A* mean, A* rstd) {
  const A count = static_cast<A>(n);
  for (int64_t r = 0; r < rows; ++r, y += n) {
    const A* row = x + r * n;
    if (delta) {
      A* total = sum + r * n;
      TESSERA_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < n; ++i) total[i] = row[i] + delta[r * n + i];
      row = total;
    }
    const A center = mean ? sum_lanes<A>(n, [=](int64_t i) { return row[i]; }) / count : A(0);
    const A squares = sum_lanes<A>(n, [=](int64_t i) { return (row[i] - center) * (row[i] - center); });
    const A scale = A(1) / elementwise::sqrt(squares / count + eps);
    scale_row(row, n, center, scale, weight, bias, y);
    if (mean) mean[r] = center;
    rstd[r] = scale;
  }
}

template <class A>
void scale_rows(const A* x, int64_t rows, int64_t n, const A* weight, const A* bias, const A* mean,
                const A* rstd, A* y) {
  for (int64_t r = 0; r < rows; ++r)
    scale_row(x + r * n, n, mean ? mean[r] : A(0), rstd[r], weight, bias, y + r * n);
}

template <bool with_dx, bool with_dweight, class A>
void backward_row(const A* x, const A* dy, const A* base, int64_t n, const A* weight, bool centered, A mean,
                  A rstd, A* dx, A* __restrict dweight, A* __restrict dbias) {
  // With h = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - h mean(g h)).
  A mean_g = 0, mean_gh = 0;
  const auto g = [=](int64_t i) { return weight ? dy[i] * weight[i] : dy[i]; };
  if constexpr (with_dx) {
    const A inverse_n = A(1) / static_cast<A>(n);
    if (weight) {
      if (centered) mean_g = sum_lanes<A>(n, [=](int64_t i) { return dy[i] * weight[i]; }) * inverse_n;
      mean_gh =
          sum_lanes<A>(n, [=](int64_t i) { return dy[i] * weight[i] * ((x[i] - mean) * rstd); }) * inverse_n;
    } else {
      if (centered) mean_g = sum_lanes<A>(n, [=](int64_t i) { return dy[i]; }) * inverse_n;
      mean_gh = sum_lanes<A>(n, [=](int64_t i) { return dy[i] * ((x[i] - mean) * rstd); }) * inverse_n;
    }
  }
  const auto gradient = [=](int64_t i, A h) { return rstd * ((g(i) - mean_g) - h * mean_gh); };
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    const A h = (x[i] - mean) * rstd;
    if constexpr (with_dx) dx[i] = base ? base[i] + gradient(i, h) : gradient(i, h);
    if constexpr (with_dweight) dweight[i] += dy[i] * h;
  }
  if (dbias)
    for (int64_t i = 0; i < n; ++i) dbias[i] += dy[i];
}

template <class A>
void backward(const A* x, const A* dy, const A* base, int64_t rows, int64_t n, const A* weight, const A* mean,
              const A* rstd, A* dx, A* dweight, A* dbias) {
  const auto row = dx ? (dweight ? &backward_row<true, true, A> : &backward_row<true, false, A>)
                      : (dweight ? &backward_row<false, true, A> : &backward_row<false, false, A>);
  for (int64_t r = 0; r < rows; ++r) {
    row(x + r * n, dy + r * n, base ? base + r * n : nullptr, n, weight, mean != nullptr,
        mean ? mean[r] : A(0), rstd[r], dx ? dx + r * n : nullptr, dweight, dbias);
  }
}

template <class A>
constexpr NormalizationRows<A> table{&forward<A>, &scale_rows<A>, &backward<A>};

}  // namespace

const NormalizationRows<float>& normalization_rows_f32() {
  return table<float>;
}
const NormalizationRows<double>& normalization_rows_f64() {
  return table<double>;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
