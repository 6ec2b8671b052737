#pragma once  // internal

#include "tensor/tensor.h"

// Reading and writing by index. An index is contiguous, i64 or i32, and has passed `check_indices`.
namespace tessera::kernels::cpu {

/// Throws IndexError naming `where`, the first index outside [0, limit), its position and the limit.
void check_indices(const char* where, const Tensor& index, int64_t limit);

/// out[o, i, :] = x[o, index[i], :], both contiguous and seen as (outer, count, inner) around `dim`.
void index_select(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out);

/// out[o, index[i], :] += source[o, i, :], contiguous. The terms of one element are summed first (narrow
/// types in f32), in the order of i, and rounded once: the same bits for any number of threads. `source` has
/// the dtype of `out`, or is bf16 or f16 for an f32 `out`.
void index_add(const Tensor& source, int64_t dim, const Tensor& index, const Tensor& out);

/// out = x at `index` along `dim`. out and index have one shape; out is contiguous, x has any strides.
void gather(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out);

/// out at `index` along the last dimension = source, in the order of that dimension. source is contiguous and
/// has index's shape; out has any strides.
void scatter(const Tensor& source, const Tensor& index, const Tensor& out);

/// The same with +=; narrow types round at each addition.
void scatter_add(const Tensor& source, const Tensor& index, const Tensor& out);
/// The same with a product.
void scatter_multiply(const Tensor& source, const Tensor& index, const Tensor& out);

}  // namespace tessera::kernels::cpu
