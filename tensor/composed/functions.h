#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

/// Functions of Tensors that are made of other functions, with PyTorch's names and arguments. Those on
/// Variables are in autograd/functions/composed.h; tensor/composed holds one definition for both. They throw
/// as the functions of which they are made, and where noted.
namespace tessera {

/// a - b trunc(a / b): the remainder with the sign of a. Throws ValueError for an integer divisor of 0.
/// @{
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, const Scalar& b);
/// @}
/// log(exp(a) + exp(b)) without overflow.
Tensor logaddexp(const Tensor& a, const Tensor& b);
/// x with finite numbers in place of NaN and of both infinities: without a number, the largest and the
/// smallest of the dtype.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
/// The hyperbolic sine, and the hyperbolic cosine.
/// @{
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
/// @}
/// x where it is above 0, else `slope` times x.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// x where it is above 0, else alpha (e^x - 1) (Clevert et al. 2015).
Tensor elu(const Tensor& x, double alpha = 1);
/// log(sigmoid(x)) without overflow.
Tensor logsigmoid(const Tensor& x);
/// x tanh(softplus(x)) (Misra 2019).
Tensor mish(const Tensor& x);

/// Element i is the product of elements 0 to i, and log(sum(exp(x))) of them. They take log2(n) passes, so
/// that no factor of 0 disturbs a gradient. Integers and bools multiply to i64.
/// @{
Tensor cumprod(const Tensor& x, int64_t dim);
Tensor logcumsumexp(const Tensor& x, int64_t dim);
/// @}
/// The k-th smallest value along `dim`, counted from 1, and its index. Throws ValueError for k outside
/// [1, extent].
ValuesAndIndices<Tensor> kthvalue(const Tensor& x, int64_t k, int64_t dim = -1, bool keepdim = false);

/// beta x + alpha a b for matrices (mm), for a matrix and a vector (mv), and for batches of matrices (bmm).
/// x broadcasts to the product's shape; with a beta of 0 its values are ignored. Throw ShapeError.
/// @{
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
             const Scalar& alpha = 1);
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
             const Scalar& alpha = 1);
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
               const Scalar& alpha = 1);
/// @}
/// The sum of products that `equation` names, "bij,bjk->bik": letters are dimensions, those without a place
/// in the result are summed over; a letter twice in one operand takes the diagonal; "..." stands for leading
/// dimensions, which broadcast. Without "->" the result has the letters that occur once, in alphabetical
/// order. Of several operands the cheapest pair is multiplied first, each by one `bmm`. Throws ValueError for
/// an equation that cannot be read or another number of operands, ShapeError for extents that differ.
/// @{
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands);
/// @}
/// The distances (sum |a_i - b_j|^p)^(1/p) between the rows of a (..., n, d) and those of b (..., m, d):
/// (..., n, m); leading dimensions broadcast (tensor/ops/linalg/distance.h).
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);
/// The sum of the products along `dim` over the product of both norms, each at least `epsilon`.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double epsilon = 1e-8);
/// x over its norm along `dim`, at least `epsilon`.
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double epsilon = 1e-12);
/// The sum of the diagonal of a matrix. Throws ShapeError for another rank.
Tensor trace(const Tensor& x);

/// The elements with index i of `dim1` and i + offset of `dim2`, as the last dimension: a view where the two
/// dimensions can be seen as one, else a copy.
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
/// Of a matrix its diagonal; of a vector the square matrix with that diagonal. Throws ShapeError for another
/// rank.
Tensor diag(const Tensor& x, int64_t diagonal = 0);
/// Dimensions `source` become dimensions `destination`; the others keep their order. A view.
Tensor movedim(const Tensor& x, const Shape& source, const Shape& destination);
/// Dimension `dim` as several of the extents `sizes`, one of which may be -1. A view.
Tensor unflatten(const Tensor& x, int64_t dim, const Shape& sizes);
/// `repeat`, with ones in front of fewer repeats than dimensions.
Tensor tile(const Tensor& x, const Shape& repeats);
/// Each element along `dim` `count` times in a row, or counts[i] times; without `dim`, of x as one vector.
/// Throws ValueError for a negative count, ShapeError for counts that are not (extent,).
/// @{
Tensor repeat_interleave(const Tensor& x, int64_t count, std::optional<int64_t> dim = {});
Tensor repeat_interleave(const Tensor& x, const Tensor& counts, std::optional<int64_t> dim = {});
/// @}
/// The coordinates of the points of a grid whose axes are the vectors: one view of the grid's shape for each.
/// `indexing` is "ij", or "xy", which exchanges the first two dimensions. Throws ValueError for another one,
/// ShapeError for operands that are not vectors or numbers.
/// @{
std::vector<Tensor> meshgrid(std::span<const Tensor> axes, std::string_view indexing = "ij");
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> axes, std::string_view indexing = "ij");
/// @}
/// As `scatter` and `index_copy`, with one number for all elements.
/// @{
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value);
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value);
/// @}

}  // namespace tessera
