#pragma once

#include <cstdint>
#include <string>

#include "tensor/tensor.h"

/// Tensors of a vmap: the shape of one sample, and values for every sample (tensor/batched/README.md).
namespace tessera {

/// An operation has no rule for all samples at once. `autograd::functional::vmap` catches it and runs its
/// function in a loop; outside of vmap, in the backward of its result, it reaches the caller.
class NoBatchingRule : public DeviceError {
 public:
  /// `operation`: its name.
  explicit NoBatchingRule(std::string operation);
  /// The operation's name.
  const std::string& operation() const { return operation_; }

 private:
  std::string operation_;
};
/// Throws it.
[[noreturn]] void throw_no_batching_rule(const char* operation);

namespace batched {

/// The batched tensor of the samples along dimension `dim` of `x`, which is on the CPU and shares its memory.
/// Throws IndexError for a dimension that it does not have.
Tensor from_dim(const Tensor& x, int64_t dim);
/// The batched tensor that has the values of `x` in every sample, in the memory of `x`, which is on the CPU.
Tensor shared(const Tensor& x, int32_t samples);

/// All samples of `x` as a tensor on the CPU in the same memory: their number, then x's dimensions. An x on
/// the CPU is the same in each sample.
Tensor all_samples(const Tensor& x, int32_t samples);
/// One sample of `x`, a tensor on the CPU in the same memory; an x on the CPU itself.
Tensor one_sample(const Tensor& x, int64_t i);
/// Whether all samples are the same memory: an x on the CPU, or one that `shared` made.
bool is_shared(const Tensor& x);

/// Which random numbers the samples of a vmap draw.
enum class Randomness : uint8_t {
  error,      ///< none: a draw throws ValueError
  different,  ///< each sample its own
  same        ///< all samples the same
};

/// A vmap that this thread runs.
class Scope {
 public:
  /// `samples`: those that operations compute at once; 0 for a loop.
  Scope(int32_t samples, Randomness randomness);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The samples that operations compute at once; 0 for a loop.
  int32_t samples() const { return samples_; }
  /// What random numbers are drawn.
  Randomness randomness() const { return randomness_; }

 private:
  int32_t samples_;
  Randomness randomness_;
  const Scope* outer_;
};

/// The innermost vmap of this thread; null outside.
const Scope* current();
/// The number of samples that operations of this thread compute at once now; 0 outside a batched vmap.
int32_t current_samples();

/// Before a random number is drawn: throws ValueError inside a vmap whose `randomness` is error.
void check_random_draw();
/// The device for a new tensor of random numbers: that of all samples where these are different, else
/// `device`.
Device random_device(Device device);
/// Before numbers are drawn in place, or on the host, for a tensor on `device`: throws NoBatchingRule where
/// the samples draw different ones and `device` has no samples.
void check_draw_for_each_sample(const char* operation, Device device);

}  // namespace batched
}  // namespace tessera
