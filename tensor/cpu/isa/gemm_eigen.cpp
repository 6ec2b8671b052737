#include "tensor/cpu/gemm/gemm_eigen.h"

// Eigen is compiled here once per instruction set, in a namespace named after the set, so that the linker
// keeps the copies of a template apart.
#pragma GCC diagnostic ignored \
    "-Wmaybe-uninitialized"  // GCC 12 warns of its own AVX-512 intrinsics (PR105593)
#define TESSERA_JOIN_(a, b) a##b
#define TESSERA_JOIN(a, b) TESSERA_JOIN_(a, b)
#define Eigen TESSERA_JOIN(eigen_, TESSERA_ISA)
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_IO
#define EIGEN_MPL2_ONLY
#include <Eigen/Core>

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using ColumnMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
template <class Matrix>
using Operand = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class MatrixA, class MatrixB, class T>
void multiply(const Gemm<T>& gemm) {
  const Operand<MatrixA> a(gemm.a, gemm.m, gemm.k, Eigen::OuterStride<>(gemm.lda));
  const Operand<MatrixB> b(gemm.b, gemm.k, gemm.n, Eigen::OuterStride<>(gemm.ldb));
  Eigen::Map<RowMajor<T>, Eigen::Unaligned, Eigen::OuterStride<>> c(gemm.c, gemm.m, gemm.n,
                                                                    Eigen::OuterStride<>(gemm.ldc));
  if (gemm.accumulate)
    c.noalias() += a * b;
  else
    c.noalias() = a * b;
}

template <class T>
void gemm_eigen(const Gemm<T>& gemm) {
  if (gemm.a_transposed)
    gemm.b_transposed ? multiply<ColumnMajor<T>, ColumnMajor<T>>(gemm)
                      : multiply<ColumnMajor<T>, RowMajor<T>>(gemm);
  else
    gemm.b_transposed ? multiply<RowMajor<T>, ColumnMajor<T>>(gemm)
                      : multiply<RowMajor<T>, RowMajor<T>>(gemm);
}

}  // namespace

void gemm_eigen_f32(const Gemm<float>& gemm) {
  gemm_eigen(gemm);
}
void gemm_eigen_f64(const Gemm<double>& gemm) {
  gemm_eigen(gemm);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
