#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tensor/tensor.h"

/// Initialisers as recorded programs: pure functions of (key, element's index, full shape). A module declares
/// them; `nn::materialize` replays them. Any rank can fill any slice, in any order, with the numbers of the
/// whole.
namespace tessera::init {

class Program {
 public:
  /// Fills `out` (any shape and dtype that the distribution takes) with elements first_index, first_index +
  /// 1, ... (row-major) of a tensor of shape `full_shape`, under `key`.
  using Fill =
      std::function<void(const Tensor& out, uint64_t key, const Shape& full_shape, int64_t first_index)>;

  Program() = default;
  /// `needs_whole`: the elements cannot be had one by one (orthogonal); `first_index` is then 0 and `out` the
  /// whole.
  Program(std::string description, Fill fill, bool needs_whole = false)
      : description_(std::move(description)), fill_(std::move(fill)), needs_whole_(needs_whole) {}

  bool defined() const { return static_cast<bool>(fill_); }
  /// "normal(0, 0.02)".
  const std::string& description() const { return description_; }
  bool needs_whole() const { return needs_whole_; }

  /// The elements [first_index, first_index + out.numel()) of the full tensor, in `out`'s dtype (floating or
  /// integer; half types are rounded from f32). Does nothing on meta. Throws ShapeError when the slice leaves
  /// the full shape.
  void fill(const Tensor& out, uint64_t key, const Shape& full_shape, int64_t first_index = 0) const;

 private:
  std::string description_;
  Fill fill_;
  bool needs_whole_ = false;
};

/// The key of a parameter's numbers: xxh3 of its first full name in the whole model, seeded.
uint64_t parameter_key(uint64_t seed, const std::string& full_name);

Program zeros();
Program ones();
Program constant(double value);
Program normal(double deviation, double mean = 0);
Program uniform(double low, double high);
/// Normal, cut at `cut` deviations on both sides, by inverse CDF.
Program truncated_normal(double deviation, double mean = 0, double cut = 2);
/// Glorot & Bengio 2010: variance 2/(fan_in + fan_out), times gain squared. For shapes of two dimensions and
/// more; fan_in is shape[1] times the rest, fan_out shape[0] times the rest, as for a (out, in, ...) weight.
Program xavier_uniform(double gain = 1);
Program xavier_normal(double gain = 1);
/// He et al. 2015 for ReLU: variance 2/fan_in.
Program kaiming_uniform();
Program kaiming_normal();
/// Rows (or columns, if fewer) orthonormal, times gain (Saxe et al. 2013). Needs the whole tensor.
Program orthogonal(double gain = 1);

}  // namespace tessera::init
