#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tensor/tensor.h"

/// Initialisers as modules record them: pure functions of (key, element's index, full shape). A module
/// declares them; `nn::materialize` runs them. Any rank can fill any range of elements, in any order, with
/// the values of the full tensor.
namespace tessera::init {

/// The recorded initial values of a tensor: a function that computes any range of its elements, and a
/// description of it.
class Initializer {
 public:
  /// Fills `out` (any shape) with elements first_index, first_index + 1, ... (row-major) of a
  /// tensor of shape `full_shape`, under `key`.
  using Fill =
      std::function<void(const Tensor& out, uint64_t key, const Shape& full_shape, int64_t first_index)>;
  /// What a Fill writes: a contiguous f32 tensor that is converted afterwards, or the tensor itself in its
  /// own dtype.
  enum class FillDType : uint8_t { f32, own_dtype };

  /// Undefined: `fill` throws ConfigError.
  Initializer() = default;
  /// `needs_full_tensor`: the elements cannot be computed one by one (orthogonal); `first_index` is then 0
  /// and `out` the full tensor.
  Initializer(std::string description, Fill fill, bool needs_full_tensor = false,
              FillDType fill_dtype = FillDType::f32)
      : description_(std::move(description)),
        fill_(std::move(fill)),
        needs_full_tensor_(needs_full_tensor),
        fill_dtype_(fill_dtype) {}

  /// Whether it has a function to run.
  bool defined() const { return static_cast<bool>(fill_); }
  /// Name and arguments, as in "normal(0, 0.02)".
  const std::string& description() const { return description_; }
  /// Whether `fill` takes the full tensor only.
  bool needs_full_tensor() const { return needs_full_tensor_; }

  /// The elements [first_index, first_index + out.numel()) of the full tensor, in `out`'s dtype (floating,
  /// integer or bool; half types are rounded from f32). Does nothing on meta. Throws ConfigError for an
  /// undefined initialiser, ShapeError when the range leaves the full shape, or where the initialiser needs
  /// all of it.
  void fill(const Tensor& out, uint64_t key, const Shape& full_shape, int64_t first_index = 0) const;

 private:
  std::string description_;
  Fill fill_;
  bool needs_full_tensor_ = false;
  FillDType fill_dtype_ = FillDType::f32;
};

/// Element `index` (row-major) of a tensor of shape `shape`.
using Element = std::function<double(int64_t index, const Shape& shape)>;
/// What `element` returns, as a value of the tensor's dtype: half types are rounded from f32, integers are
/// exact up to 2^53. Throws ValueError, naming the element, for one that an integer dtype cannot represent.
///
///     buffer("slopes", {heads}, [](int64_t i, const Shape& shape) { return std::exp2(-8.0 * i / shape[0]);
///     });
Initializer elementwise(Element element, std::string description = "elementwise");

/// The key of a parameter's values: xxh3 of its first full name in the whole model, seeded.
uint64_t parameter_key(uint64_t seed, const std::string& full_name);

/// Every element 0.
Initializer zeros();
/// Every element 1.
Initializer ones();
/// Every element `value`; of bool whether it is not 0. Throws ValueError, when values are given, for an
/// integer dtype and a value that is not whole.
Initializer constant(double value);
/// The normal distribution of this standard deviation and mean.
Initializer normal(double deviation, double mean = 0);
/// Uniform in [low, high). Throws ValueError for low > high.
Initializer uniform(double low, double high);
/// Normal, truncated at `cut` deviations on both sides, by inverse CDF. Throws ValueError for a cut of 0 or
/// less.
Initializer truncated_normal(double deviation, double mean = 0, double cut = 2);
/// Glorot & Bengio 2010: variance 2/(fan_in + fan_out), times gain squared. For shapes of two dimensions and
/// more; fan_in is shape[1] times the rest, fan_out shape[0] times the rest, as for a (out, in, ...) weight.
/// @{
Initializer xavier_uniform(double gain = 1);
Initializer xavier_normal(double gain = 1);
/// @}
/// Variance 2/((1 + slope^2) fan_in), for a leaky ReLU of this slope (0: ReLU; He et al. 2015). Throws
/// ValueError for a slope that is not finite.
/// @{
Initializer kaiming_uniform(double negative_slope = 0);
Initializer kaiming_normal(double negative_slope = 0);
/// @}
/// Rows (or columns, if fewer) orthonormal, times gain (Saxe et al. 2013). Needs the full tensor.
Initializer orthogonal(double gain = 1);

}  // namespace tessera::init
