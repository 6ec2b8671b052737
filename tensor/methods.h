#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/device.h"
#include "tensor/shape.h"
#include "tensor/types/dtype.h"
#include "tensor/types/scalar.h"

namespace tessera {

class Tensor;
class Index;
/// The result of `sort`, `topk`, `max(dim)`, `min(dim)` and `median(dim)`, also as `auto [values, indices]`.
template <class X>
struct ValuesAndIndices;
/// The result of `aminmax` (tensor/composed/statistics/statistics.h).
template <class X>
struct Extremes;
struct UniqueValues;

namespace detail {
/// V is the type of a Variable whose values are of type X: an operand that a method of X takes, too.
template <class V, class X>
concept VariableOf = requires(const V& v) {
  { v.value() } -> std::same_as<const X&>;
  V(v.value());
};
}  // namespace detail

/// Options of `x.var` and `x.std`: `x.var(0, {.keepdim = true})`. (A bool there would be PyTorch's
/// `unbiased`.)
struct VarianceOptions {
  bool keepdim = false;    ///< reduced dimensions stay, with extent 1
  int64_t correction = 1;  ///< the sum of squares is divided by n - correction
};

/// The operations on X, a Tensor or a Variable, as methods: one list for both. Each calls the function of
/// namespace tessera with its name and its remaining arguments, `x.softmax(-1)` that is `softmax(x, -1)`;
/// what it computes, saves and throws is documented there (tensor/ops/, autograd/functions/). Names and the
/// order of arguments are PyTorch's. Results that carry no gradient are Tensors for either X. Dimensions are
/// counted from the end when negative; without dimensions a reduction takes all.
template <class X>
class TensorMethods {
 public:
  // Element by element.
  X abs() const;                                      ///< |x|
  X neg() const;                                      ///< -x
  X sign() const;                                     ///< -1, 0 or 1
  X square() const;                                   ///< x^2
  X sqrt() const;                                     ///< the square root
  X rsqrt() const;                                    ///< 1 / sqrt(x)
  X reciprocal() const;                               ///< 1 / x
  X exp() const;                                      ///< e^x
  X exp2() const;                                     ///< 2^x
  X expm1() const;                                    ///< e^x - 1
  X log() const;                                      ///< the natural logarithm
  X log2() const;                                     ///< the logarithm to base 2
  X log10() const;                                    ///< the logarithm to base 10
  X log1p() const;                                    ///< log(1 + x)
  X sin() const;                                      ///< the sine
  X cos() const;                                      ///< the cosine
  X tan() const;                                      ///< the tangent
  X tanh() const;                                     ///< the hyperbolic tangent
  X sigmoid() const;                                  ///< 1 / (1 + e^-x)
  X relu() const;                                     ///< max(x, 0)
  X sinh() const;                                     ///< the hyperbolic sine
  X cosh() const;                                     ///< the hyperbolic cosine
  X erf() const;                                      ///< the error function
  X erfc() const;                                     ///< 1 - erf(x)
  X floor() const;                                    ///< rounded down
  X ceil() const;                                     ///< rounded up
  X round() const;                                    ///< to the nearest integer, ties to even
  X trunc() const;                                    ///< rounded towards 0
  X asin() const;                                     ///< the inverse of the sine
  X acos() const;                                     ///< the inverse of the cosine
  X atan() const;                                     ///< the inverse of the tangent
  X asinh() const;                                    ///< the inverse of the hyperbolic sine
  X acosh() const;                                    ///< the inverse of the hyperbolic cosine
  X atanh() const;                                    ///< the inverse of the hyperbolic tangent
  X erfinv() const;                                   ///< the inverse of the error function
  X lgamma() const;                                   ///< log |gamma(x)|
  X digamma() const;                                  ///< the derivative of `lgamma`
  X sinc() const;                                     ///< sin(pi x) / (pi x)
  X polygamma(int64_t n) const;                       ///< the n-th derivative of `digamma`
  X logit(std::optional<double> epsilon = {}) const;  ///< the inverse of `sigmoid`

  // Arithmetic; shapes broadcast.
  X add(const X& y) const;                                    ///< x + y
  X add(const Scalar& n) const;                               ///< x + n
  X sub(const X& y) const;                                    ///< x - y
  X sub(const Scalar& n) const;                               ///< x - n
  X mul(const X& y) const;                                    ///< x times y
  X mul(const Scalar& n) const;                               ///< x times n
  X div(const X& y) const;                                    ///< x / y
  X div(const Scalar& n) const;                               ///< x / n
  X remainder(const X& y) const;                              ///< x % y, with y's sign
  X remainder(const Scalar& n) const;                         ///< x % n, with n's sign
  X fmod(const X& y) const;                                   ///< x % y, with x's sign
  X fmod(const Scalar& n) const;                              ///< x % n, with x's sign
  Tensor floor_divide(const X& y) const;                      ///< x / y, rounded down
  Tensor floor_divide(const Scalar& n) const;                 ///< x / n, rounded down
  X logaddexp(const X& y) const;                              ///< log(e^x + e^y)
  X pow(const X& y) const;                                    ///< x^y
  X pow(const Scalar& n) const;                               ///< x^n
  X maximum(const X& y) const;                                ///< the larger
  X maximum(const Scalar& n) const;                           ///< the larger
  X minimum(const X& y) const;                                ///< the smaller
  X minimum(const Scalar& n) const;                           ///< the smaller
  X atan2(const X& other) const;                              ///< the angle of the point (other, x)
  X hypot(const X& y) const;                                  ///< sqrt(x^2 + y^2)
  X copysign(const X& y) const;                               ///< |x| with the sign of y
  X xlogy(const X& y) const;                                  ///< x log(y)
  X float_power(const X& y) const;                            ///< x^y in f64
  X float_power(const Scalar& n) const;                       ///< x^n in f64
  Tensor heaviside(const X& values) const;                    ///< 0, 1, or at 0 the element of `values`
  Tensor nextafter(const X& y) const;                         ///< the next number towards y
  X lerp(const X& end, double weight) const;                  ///< x + weight (end - x)
  X addcmul(const X& a, const X& b, double value = 1) const;  ///< x + value a b
  X addcdiv(const X& a, const X& b, double value = 1) const;  ///< x + value a / b
  X clamp(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;  ///< limited to [min, max]
  X clamp_min(const Scalar& min) const;                                      ///< at least `min`
  X clamp_max(const Scalar& max) const;                                      ///< at most `max`
  X clamp_min(const X& min) const;                                           ///< at least `min`
  X clamp_max(const X& max) const;                                           ///< at most `max`
  /// Finite numbers in place of NaN and infinities.
  X nan_to_num(double nan = 0, std::optional<double> posinf = {}, std::optional<double> neginf = {}) const;

  // Bits of integers and bools.
  Tensor bitwise_and(const X& y) const;               ///< bits that both have
  Tensor bitwise_or(const X& y) const;                ///< bits that one has
  Tensor bitwise_xor(const X& y) const;               ///< bits that exactly one has
  Tensor bitwise_not() const;                         ///< every bit flipped
  Tensor bitwise_left_shift(const X& n) const;        ///< x 2^n
  Tensor bitwise_left_shift(const Scalar& n) const;   ///< x 2^n
  Tensor bitwise_right_shift(const X& n) const;       ///< x / 2^n, rounded down
  Tensor bitwise_right_shift(const Scalar& n) const;  ///< x / 2^n, rounded down

  // Element by element: bool. (Whether two handles are one Variable is `is_same`.)
  Tensor eq(const X& y) const;           ///< equal
  Tensor eq(const Scalar& n) const;      ///< equal
  Tensor ne(const X& y) const;           ///< not equal
  Tensor ne(const Scalar& n) const;      ///< not equal
  Tensor lt(const X& y) const;           ///< less
  Tensor lt(const Scalar& n) const;      ///< less
  Tensor le(const X& y) const;           ///< less or equal
  Tensor le(const Scalar& n) const;      ///< less or equal
  Tensor gt(const X& y) const;           ///< greater
  Tensor gt(const Scalar& n) const;      ///< greater
  Tensor ge(const X& y) const;           ///< greater or equal
  Tensor ge(const Scalar& n) const;      ///< greater or equal
  Tensor logical_and(const X& y) const;  ///< both are not 0
  Tensor logical_or(const X& y) const;   ///< one is not 0
  Tensor logical_xor(const X& y) const;  ///< exactly one is not 0
  Tensor logical_not() const;            ///< is 0
  Tensor isnan() const;                  ///< is not a number
  Tensor isinf() const;                  ///< is infinite
  Tensor isfinite() const;               ///< is neither infinite nor NaN
  /// Whether all elements are close: |x - y| at most atol + rtol |y|, infinities equal; NaN is close to
  /// nothing.
  bool allclose(const X& y, double rtol = 1e-5, double atol = 1e-8) const;
  /// The same, element by element.
  Tensor isclose(const X& y, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  bool array_equal(const X& y) const;  ///< whether shapes and all elements are equal
  /// `array_equal`, by PyTorch's name. (The function `equal(x, y)` compares element by element.)
  bool equal(const X& y) const { return array_equal(y); }

  // Reductions.
  X sum(const Shape& dims = {}, bool keepdim = false) const;                 ///< the sum
  X mean(const Shape& dims = {}, bool keepdim = false) const;                ///< the mean
  X prod(const Shape& dims = {}, bool keepdim = false) const;                ///< the product
  X amax(const Shape& dims = {}, bool keepdim = false) const;                ///< the largest values
  X amin(const Shape& dims = {}, bool keepdim = false) const;                ///< the smallest values
  X var(const Shape& dims = {}, const VarianceOptions& options = {}) const;  ///< the variance
  X std(const Shape& dims = {}, const VarianceOptions& options = {}) const;  ///< the standard deviation
  X norm(double p = 2, const Shape& dims = {}, bool keepdim = false) const;  ///< (sum |x|^p)^(1/p)
  X logsumexp(const Shape& dims, bool keepdim = false) const;                ///< log(sum(exp(x)))
  X max() const;                                                             ///< the largest element
  X min() const;                                                             ///< the smallest element
  X median() const;  ///< the middle element in order, of two the smaller
  ValuesAndIndices<X> max(int64_t dim, bool keepdim = false) const;     ///< the largest along `dim`
  ValuesAndIndices<X> min(int64_t dim, bool keepdim = false) const;     ///< the smallest along `dim`
  ValuesAndIndices<X> median(int64_t dim, bool keepdim = false) const;  ///< the middle one along `dim`
  Tensor argmax() const;                                                ///< i64, in row-major order
  Tensor argmin() const;                                                ///< i64, in row-major order
  Tensor argmax(int64_t dim, bool keepdim = false) const;               ///< i64
  Tensor argmin(int64_t dim, bool keepdim = false) const;               ///< i64
  Tensor any(const Shape& dims = {}, bool keepdim = false) const;       ///< bool
  Tensor all(const Shape& dims = {}, bool keepdim = false) const;       ///< bool
  X softmax(int64_t dim) const;                                         ///< exp(x) / sum(exp(x))
  X log_softmax(int64_t dim) const;                                     ///< log(softmax(x))
  X cumsum(int64_t dim) const;                                          ///< sums of elements 0 to i
  X cumprod(int64_t dim) const;                                         ///< products of elements 0 to i
  X logcumsumexp(int64_t dim) const;                                    ///< `logsumexp` of elements 0 to i
  X diff(int64_t n = 1, int64_t dim = -1, const X& prepend = {},
         const X& append = {}) const;             ///< x[i + 1] - x[i], n times
  ValuesAndIndices<X> cummax(int64_t dim) const;  ///< the largest of elements 0 to i
  ValuesAndIndices<X> cummin(int64_t dim) const;  ///< the smallest of elements 0 to i
  Extremes<X> aminmax(const Shape& dims = {}, bool keepdim = false) const;  ///< the smallest and the largest
  X nansum(const Shape& dims = {}, bool keepdim = false) const;             ///< `sum` without NaNs
  X nanmean(const Shape& dims = {}, bool keepdim = false) const;            ///< `mean` without NaNs
  X nanmedian() const;                                                      ///< `median` without NaNs
  ValuesAndIndices<X> nanmedian(int64_t dim, bool keepdim = false) const;   ///< `median` without NaNs
  ValuesAndIndices<X> mode(int64_t dim = -1, bool keepdim = false) const;   ///< what occurs most often
  X quantile(double q, std::optional<int64_t> dim = {}, bool keepdim = false,
             std::string_view interpolation = "linear") const;  ///< the q-quantile
  X quantile(const Tensor& q, std::optional<int64_t> dim = {}, bool keepdim = false,
             std::string_view interpolation = "linear") const;  ///< for each q
  X nanquantile(double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                std::string_view interpolation = "linear") const;  ///< without NaNs
  X nanquantile(const Tensor& q, std::optional<int64_t> dim = {}, bool keepdim = false,
                std::string_view interpolation = "linear") const;          ///< for each q, without NaNs
  X renorm(double p, int64_t dim, double maxnorm) const;                   ///< with limited p-norms
  X cov(int64_t correction = 1) const;                                     ///< covariances of rows
  X corrcoef() const;                                                      ///< correlations of rows
  Tensor histc(int64_t bins = 100, double min = 0, double max = 0) const;  ///< how many are in each interval
  Tensor count_nonzero(const Shape& dims = {}) const;                      ///< i64

  // Matrices.
  X matmul(const X& y) const;  ///< the product by NumPy's rules
  X mm(const X& y) const;      ///< of two matrices
  X bmm(const X& y) const;     ///< of two batches of matrices
  X mv(const X& y) const;      ///< of a matrix and a vector
  X dot(const X& y) const;     ///< of two vectors: a 0-dim result
  X outer(const X& y) const;   ///< of two vectors: a matrix
  X addmm(const X& a, const X& b, const Scalar& beta = 1,
          const Scalar& alpha = 1) const;  ///< beta x + alpha a b
  X addmv(const X& a, const X& b, const Scalar& beta = 1, const Scalar& alpha = 1) const;  ///< of a vector b
  X baddbmm(const X& a, const X& b, const Scalar& beta = 1, const Scalar& alpha = 1) const;  ///< of batches
  X trace() const;  ///< the sum of the diagonal

  // Order.
  ValuesAndIndices<X> sort(int64_t dim = -1, bool descending = false) const;         ///< all elements
  ValuesAndIndices<X> topk(int64_t k, int64_t dim = -1, bool largest = true) const;  ///< the k largest
  Tensor argsort(int64_t dim = -1, bool descending = false) const;                   ///< i64
  /// The k-th smallest along `dim`, counted from 1.
  ValuesAndIndices<X> kthvalue(int64_t k, int64_t dim = -1, bool keepdim = false) const;
  Tensor unique() const;              ///< the different values in rising order
  Tensor unique_consecutive() const;  ///< one of each group of equal neighbours
  UniqueValues unique_all() const;    ///< with their places and counts
  Tensor bincount() const;            ///< how often 0, 1, ... occur
  Tensor bincount(const Tensor& weights, int64_t minlength = 0) const;  ///< the sums of their weights

  // By index.
  X gather(int64_t dim, const Tensor& index) const;                        ///< x at `index` along dim
  X scatter(int64_t dim, const Tensor& index, const X& source) const;      ///< x with values replaced
  X scatter_add(int64_t dim, const Tensor& index, const X& source) const;  ///< x with values added
  X index_select(int64_t dim, const Tensor& index) const;                  ///< x at `index` along dim
  X index_add(int64_t dim, const Tensor& index, const X& source) const;    ///< x with values added
  X take_along_dim(const Tensor& index, int64_t dim) const;                ///< `gather`, broadcast
  X masked_fill(const Tensor& mask, const Scalar& value) const;            ///< `value` where the mask is
  X masked_select(const Tensor& mask) const;                               ///< the elements where the mask is
  X masked_scatter(const Tensor& mask, const X& source) const;             ///< `source` where the mask is
  X take(const Tensor& index) const;                                       ///< of x as one vector
  Tensor nonzero() const;                                                  ///< i64 (n, rank)
  X scatter(int64_t dim, const Tensor& index, const Scalar& value) const;  ///< x with one number
  X index_copy(int64_t dim, const Tensor& index, const X& source) const;   ///< x with slices replaced
  X index_fill(int64_t dim, const Tensor& index, const Scalar& value) const;  ///< x with one number
  /// A copy of x after `index_put_`.
  X index_put(std::initializer_list<Index> indices, const X& value, bool accumulate = false) const;
  /// `scatter_add` by "sum", "prod", "mean", "amax" or "amin".
  X scatter_reduce(int64_t dim, const Tensor& index, const X& source, std::string_view reduction,
                   bool include_self = true) const;
  /// The same for slices: `index_add` by a reduction.
  X index_reduce(int64_t dim, const Tensor& index, const X& source, std::string_view reduction,
                 bool include_self = true) const;
  X where(const Tensor& condition, const X& other) const;       ///< x where true, else other
  X where(const Tensor& condition, const Scalar& other) const;  ///< x where true, else other

  // Shape and place. The views that a Tensor has are members of Tensor and Variable.
  X t() const;                     ///< the transpose of a matrix; a vector itself
  X T() const { return t(); }      ///< `t`, by the name of PyTorch's attribute
  X mT() const;                    ///< the last two dimensions transposed
  X expand_as(const X& y) const;   ///< `expand(y.shape())`
  X view_as(const X& y) const;     ///< `view(y.shape())`
  X reshape_as(const X& y) const;  ///< `reshape(y.shape())`
  X type_as(const X& y) const;     ///< `to(y.device(), y.dtype())`
  X movedim(const Shape& source, const Shape& destination) const;  ///< dimensions elsewhere
  X unflatten(int64_t dim, const Shape& sizes) const;              ///< one dimension as several
  X diag(int64_t diagonal = 0) const;                              ///< the diagonal, or a matrix with it
  X diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1) const;      ///< the diagonal
  X diag_embed(int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1) const;  ///< as diagonals
  /// x with its `diagonal` replaced.
  X diagonal_scatter(const X& source, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1) const;
  X select_scatter(const X& source, int64_t dim,
                   int64_t index) const;  ///< x with an element of `dim` replaced
  /// x with a slice of `dim` replaced.
  X slice_scatter(const X& source, int64_t dim, int64_t start, int64_t end, int64_t step = 1) const;
  X rot90(int64_t k = 1, const Shape& dims = {0, 1}) const;  ///< turned by 90 degrees k times
  X swapaxes(int64_t dim0, int64_t dim1) const;              ///< `transpose`
  X unfold(int64_t dim, int64_t size, int64_t step) const;   ///< windows along `dim`: `unfold_along`
  X tile(const Shape& repeats) const;                        ///< `repeat`, from the last one
  X repeat_interleave(int64_t count, std::optional<int64_t> dim = {}) const;  ///< each element repeated
  X repeat_interleave(const Tensor& counts, std::optional<int64_t> dim = {}) const;  ///< by its count
  X tril(int64_t diagonal = 0) const;        ///< zeros above the diagonal
  X triu(int64_t diagonal = 0) const;        ///< zeros below the diagonal
  X roll(int64_t shift, int64_t dim) const;  ///< moved by `shift` along `dim`
  X flip(const Shape& dims) const;           ///< in reverse order along `dims`
  X repeat(const Shape& repeats) const;      ///< repeats[i] times along dimension i
  /// `x.repeat(2, 1)` is `x.repeat({2, 1})`.
  template <std::integral... Sizes>
  X repeat(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return repeat(Shape{static_cast<int64_t>(sizes)...});
  }
  /// `x.tile(2, 1)` is `x.tile({2, 1})`.
  template <std::integral... Sizes>
  X tile(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return tile(Shape{static_cast<int64_t>(sizes)...});
  }
  /// `x.flip(0, 1)` is `x.flip({0, 1})`.
  template <std::integral... Dims>
  X flip(Dims... dims) const requires(sizeof...(Dims) > 1) {
    return flip(Shape{static_cast<int64_t>(dims)...});
  }
  std::vector<X> chunk(int64_t chunks, int64_t dim = 0) const;                  ///< about equal views
  std::vector<X> split(int64_t size, int64_t dim = 0) const;                    ///< views of `size` elements
  std::vector<X> split(std::span<const int64_t> sizes, int64_t dim = 0) const;  ///< views of these sizes
  /// Views of these sizes.
  std::vector<X> split(std::initializer_list<int64_t> sizes, int64_t dim = 0) const {
    return split(std::span<const int64_t>(sizes.begin(), sizes.size()), dim);
  }
  /// Exactly N chunks, for a structured binding: `auto [a, b] = x.chunk<2>(-1)`. Throws ShapeError when `dim`
  /// gives fewer.
  template <size_t N>
  std::array<X, N> chunk(int64_t dim = 0) const {
    std::vector<X> chunks = exact_chunks(N, dim);
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::array<X, N>{std::move(chunks[I])...};
    }
    (std::make_index_sequence<N>());
  }
  std::vector<X> tensor_split(int64_t sections, int64_t dim = 0) const;  ///< almost equal views
  /// Views that begin at these indices.
  std::vector<X> tensor_split(std::initializer_list<int64_t> indices, int64_t dim = 0) const;
  /// The views without dimension `dim`, one per index.
  std::vector<X> unbind(int64_t dim = 0) const;

  // In place; the result is x itself. While operations are recorded these throw AutogradError for a leaf that
  // requires a gradient, and other Variables that cannot be changed (autograd/record.h, record_in_place).
  const X& add_(const X& y) const;        ///< x + y
  const X& add_(const Scalar& n) const;   ///< x + n
  const X& sub_(const X& y) const;        ///< x - y
  const X& sub_(const Scalar& n) const;   ///< x - n
  const X& mul_(const X& y) const;        ///< x times y
  const X& mul_(const Scalar& n) const;   ///< x times n
  const X& div_(const X& y) const;        ///< x / y
  const X& div_(const Scalar& n) const;   ///< x / n
  const X& pow_(const Scalar& n) const;   ///< x^n
  const X& copy_(const X& y) const;       ///< y, broadcast to x's shape and converted to its dtype
  const X& fill_(const Scalar& n) const;  ///< n
  const X& lerp_(const X& end, double weight) const;                           ///< x + weight (end - x)
  const X& addcmul_(const X& a, const X& b, double value = 1) const;           ///< x + value a b
  const X& addcdiv_(const X& a, const X& b, double value = 1) const;           ///< x + value a / b
  const X& clamp_min_(const Scalar& min) const;                                ///< at least `min`
  const X& clamp_max_(const Scalar& max) const;                                ///< at most `max`
  const X& masked_fill_(const Tensor& mask, const Scalar& value) const;        ///< `value` where the mask is
  const X& scatter_(int64_t dim, const Tensor& index, const X& source) const;  ///< as `scatter`
  const X& scatter_(int64_t dim, const Tensor& index, const Scalar& value) const;     ///< as `scatter`
  const X& scatter_add_(int64_t dim, const Tensor& index, const X& source) const;     ///< as `scatter_add`
  const X& index_add_(int64_t dim, const Tensor& index, const X& source) const;       ///< as `index_add`
  const X& index_copy_(int64_t dim, const Tensor& index, const X& source) const;      ///< as `index_copy`
  const X& index_fill_(int64_t dim, const Tensor& index, const Scalar& value) const;  ///< as `index_fill`
  const X& zero_() const;                                                             ///< 0
  const X& clamp_(std::optional<Scalar> min, std::optional<Scalar> max = {}) const;   ///< limited
  const X& abs_() const;                                                              ///< |x|
  const X& neg_() const;                                                              ///< -x
  const X& square_() const;                                                           ///< x^2
  const X& sqrt_() const;                                                             ///< the square root
  const X& rsqrt_() const;                                                            ///< 1 / sqrt(x)
  const X& reciprocal_() const;                                                       ///< 1 / x
  const X& exp_() const;                                                              ///< e^x
  const X& log_() const;                                                              ///< the logarithm
  const X& sin_() const;                                                              ///< the sine
  const X& cos_() const;                                                              ///< the cosine
  const X& tanh_() const;                                                             ///< tanh
  const X& sigmoid_() const;                                                          ///< 1 / (1 + e^-x)
  const X& relu_() const;                                                             ///< max(x, 0)
  const X& floor_() const;                                                            ///< rounded down
  const X& ceil_() const;                                                             ///< rounded up
  const X& round_() const;  ///< to the nearest integer
  const X& normal_(double mean = 0,
                   double deviation = 1) const;              ///< random (tensor/ops/creation/generator.h)
  const X& uniform_(double low = 0, double high = 1) const;  ///< random in [low, high)
  const X& bernoulli_(double probability = 0.5) const;       ///< 1 with `probability`, else 0

  // New constants with x's device and, unless given, its dtype.
  Tensor new_empty(const Shape& shape, std::optional<DType> dtype = {}) const;  ///< uninitialised
  Tensor new_zeros(const Shape& shape, std::optional<DType> dtype = {}) const;  ///< 0
  Tensor new_ones(const Shape& shape, std::optional<DType> dtype = {}) const;   ///< 1
  Tensor new_full(const Shape& shape, const Scalar& n, std::optional<DType> dtype = {}) const;  ///< n

  // clang-format off
  // A Variable as the operand of a Tensor's method: the Tensor counts as a constant, the result is a Variable.
  // Changes in place are not possible: a Tensor has no history in which to record the Variable.
#define TESSERA_WITH_VARIABLE(name)                                        \
  template <detail::VariableOf<X> V> auto name(const V& y) const {         \
    return V(self()).name(y);                                              \
  }                                                                        \
  static_assert(true)
#define TESSERA_WITHOUT_VARIABLE(name)                                     \
  template <detail::VariableOf<X> V> void name(const V&) const {           \
    static_assert(sizeof(V) == 0, "a Tensor records nothing: write Variable(x)." #name "(y), or x." #name "(y.value())"); \
  }                                                                        \
  static_assert(true)
  TESSERA_WITH_VARIABLE(add);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(sub);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(mul);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(div);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(remainder);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(fmod);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(logaddexp);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(pow);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(maximum);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(minimum);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(matmul);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(mm);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(bmm);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(mv);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(dot);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(outer);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(type_as);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(eq);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(ne);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(lt);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(le);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(gt);  ///< as of two Variables
  TESSERA_WITH_VARIABLE(ge);  ///< as of two Variables
  TESSERA_WITHOUT_VARIABLE(add_);  ///< does not compile
  TESSERA_WITHOUT_VARIABLE(sub_);  ///< does not compile
  TESSERA_WITHOUT_VARIABLE(mul_);  ///< does not compile
  TESSERA_WITHOUT_VARIABLE(div_);  ///< does not compile
  TESSERA_WITHOUT_VARIABLE(copy_);  ///< does not compile
#undef TESSERA_WITH_VARIABLE
#undef TESSERA_WITHOUT_VARIABLE
  // clang-format on

 private:
  const X& self() const {
    return static_cast<const X&>(*this);
  }
  std::vector<X> exact_chunks(size_t count, int64_t dim) const;
};

}  // namespace tessera
