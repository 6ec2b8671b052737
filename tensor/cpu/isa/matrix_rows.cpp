#include "tensor/cpu/linalg/matrix_rows.h"

namespace tessera::kernels::cpu::TESSERA_ISA {

void subtract_rows(double* out, int64_t n, const double* factors, int64_t count, const double* rows,
                   int64_t stride) {
  constexpr int64_t block = 1024;  // of `out`, stays in the first cache over all rows
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t length = n - begin < block ? n - begin : block;
    double* __restrict to = out + begin;
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
      const double* r0 = rows + k * stride + begin;
      const double *r1 = r0 + stride, *r2 = r1 + stride, *r3 = r2 + stride;
      const double f0 = factors[k], f1 = factors[k + 1], f2 = factors[k + 2], f3 = factors[k + 3];
#pragma GCC ivdep
      for (int64_t i = 0; i < length; ++i)
        to[i] = (((to[i] - f0 * r0[i]) - f1 * r1[i]) - f2 * r2[i]) - f3 * r3[i];
    }
    for (; k < count; ++k) {
      const double* row = rows + k * stride + begin;
      const double factor = factors[k];
#pragma GCC ivdep
      for (int64_t i = 0; i < length; ++i) to[i] -= factor * row[i];
    }
  }
}

double dot_rows(const double* a, const double* b, int64_t n) {
  double lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int64_t j = 0; j < 16; ++j) lanes[j] += a[i + j] * b[i + j];
  for (int64_t j = 0; i + j < n; ++j) lanes[j] += a[i + j] * b[i + j];
  for (int64_t width = 8; width > 0; width /= 2)
    for (int64_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  return lanes[0];
}

void rotate_rows(double* x, double* y, int64_t n, double c, double s) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const double u = x[i], v = y[i];
    x[i] = c * u - s * v;
    y[i] = s * u + c * v;
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
