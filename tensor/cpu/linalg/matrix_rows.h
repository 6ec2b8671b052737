#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"

namespace tessera::kernels::cpu {

// What the factorisations do with rows of a matrix, in f64. Sums have one order on every instruction set.
TESSERA_DECLARE_PER_ISA(
    // out[i] -= the sum of factors[k] rows[k stride + i] over k < count, for i < n.
    void subtract_rows(double* out, int64_t n, const double* factors, int64_t count, const double* rows,
                       int64_t stride);
    // The sum of a[i] b[i].
    double dot_rows(const double* a, const double* b, int64_t n);
    // (x, y) becomes (c x - s y, s x + c y).
    void rotate_rows(double* x, double* y, int64_t n, double c, double s);)

}  // namespace tessera::kernels::cpu
