#pragma once

#include <optional>
#include <string_view>

#include "tensor/tensor.h"

/// Order statistics, running extremes, integrals and covariances, made of other functions, with PyTorch's
/// names and arguments. Those on Variables are in autograd/functions/composed/statistics.h; statistics.inc
/// has one definition for both. Throw as the functions of which they are made, and where noted.
namespace tessera {

/// What `aminmax` gives, also as `auto [low, high]`.
template <class X>
struct Extremes {
  X min;  ///< the smallest elements
  X max;  ///< the largest
};

/// How many elements are in each of `bins` equal intervals of [min, max], in x's dtype; without bounds (both
/// 0) of the range of x. Elements outside, and NaN, are not counted. Throws ValueError for less than one bin,
/// for bounds that are not finite or fall, DeviceError on meta where the bounds are those of the values.
Tensor histc(const Tensor& x, int64_t bins = 100, double min = 0, double max = 0);

/// The largest, or the smallest, of the elements 0 to i along `dim`, and its index, the last of equals. After
/// a NaN all are NaN. The gradient goes to the element of the index.
/// @{
ValuesAndIndices<Tensor> cummax(const Tensor& x, int64_t dim);
ValuesAndIndices<Tensor> cummin(const Tensor& x, int64_t dim);
/// @}
/// The smallest and the largest elements, over any dimensions: `amin` and `amax`.
Extremes<Tensor> aminmax(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
/// `sum` and `mean` of the elements that are not NaN; a mean of none is NaN.
/// @{
Tensor nansum(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
Tensor nanmean(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
/// @}
/// The middle one in rising order of the elements that are not NaN, of two the smaller; NaN where all are.
/// Along a dimension, with its index. Throw ShapeError over nothing.
/// @{
Tensor nanmedian(const Tensor& x);
ValuesAndIndices<Tensor> nanmedian(const Tensor& x, int64_t dim, bool keepdim = false);
/// @}
/// The q-quantiles (Hyndman and Fan's definition 7) along `dim`, or of all elements: q within [0, 1]
/// (ValueError), a number or a vector (k,), of which the result has a leading dimension. `interpolation`
/// between two neighbours is "linear", "lower", "higher", "midpoint" or "nearest" (ValueError). Where there
/// is a NaN the result is NaN; `nanquantile` leaves NaNs out. Throw ShapeError over nothing.
/// @{
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int64_t> dim = {}, bool keepdim = false,
                std::string_view interpolation = "linear");
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                std::string_view interpolation = "linear");
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<int64_t> dim = {}, bool keepdim = false,
                   std::string_view interpolation = "linear");
Tensor nanquantile(const Tensor& x, double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                   std::string_view interpolation = "linear");
/// @}
/// The value that occurs most often along `dim`, of several the smallest, and the index of its last
/// occurrence. Throws ShapeError over nothing.
ValuesAndIndices<Tensor> mode(const Tensor& x, int64_t dim = -1, bool keepdim = false);
/// x with each element of `dim`, a tensor, scaled down to a p-norm of `maxnorm` where it has a larger one.
/// Throws ValueError for a p that is not above 0, or a negative maxnorm.
Tensor renorm(const Tensor& x, double p, int64_t dim, double maxnorm);
/// The differences of neighbours along `dim`, x[i + 1] - x[i], and of these again, n times in all; of x with
/// `prepend` in front and `append` behind it where these are defined. The second argument is n, as in
/// PyTorch: `diff(x, 1, 0)` for dimension 0. Throws ValueError for a negative n.
Tensor diff(const Tensor& x, int64_t n = 1, int64_t dim = -1, const Tensor& prepend = {},
            const Tensor& append = {});
/// The integral of y along `dim` by the trapezoidal rule, with the distance `dx` between points, or at points
/// x: a vector, or of y's shape. `cumulative_trapezoid` has the integrals up to each point but the first.
/// @{
Tensor trapezoid(const Tensor& y, double dx = 1, int64_t dim = -1);
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, int64_t dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1);
/// @}
/// The covariances between the rows of x (variables, observations), and their correlations; of a vector, its
/// variance and 1. Sums are divided by n - correction.
/// @{
Tensor cov(const Tensor& x, int64_t correction = 1);
Tensor corrcoef(const Tensor& x);
/// @}

}  // namespace tessera
