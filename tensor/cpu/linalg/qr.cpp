// QR by Householder reflections (Golub and Van Loan, 5.2).
#include <algorithm>

#include "tensor/cpu/linalg/dense_matrix.h"
#include "tensor/cpu/linalg/factorizations.h"

namespace tessera::kernels::cpu {

void qr(const Tensor& given, const Tensor& q, const Tensor& r) {
  const Tensor a = given.contiguous();
  const RowKernels kernels;
  const int64_t m = a.size(-2), n = a.size(-1);
  for_each_matrix(batch_count(a), m * n * n, [&](int64_t i) {
    DenseMatrix matrix = load_matrix(a, i);
    const Reflections reflections = triangularize(matrix, kernels);
    if (q.defined()) store_matrix(form_q(reflections, q.size(-1), kernels), q, i);
    matrix.rows = r.size(-2);
    matrix.values.resize(static_cast<size_t>(matrix.rows * n));
    store_matrix(matrix, r, i);
  });
}

}  // namespace tessera::kernels::cpu
