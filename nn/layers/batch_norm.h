#pragma once

#include <memory>
#include <optional>

#include "autograd/functions/images/batch_norm.h"
#include "nn/layer.h"

namespace tessera::nn {

/// Options of BatchNorm.
struct BatchNormOptions {
  int64_t num_features = 0;  ///< channels of the input
  double epsilon = 1e-5;     ///< added to the variance
  /// The share of a call's statistics in the running ones. Without one these are the averages over all calls.
  std::optional<double> momentum = 0.1;
  bool affine = true;               ///< whether there are a weight and a bias
  bool track_running_stats = true;  ///< whether evaluation reads running statistics, else those of its input
  init::Initializer weight_init = init::ones();  ///< the initial weight
};

/// A layer with statistics over the batch, which ranks may take together.
class BatchStatistics {
 public:
  virtual ~BatchStatistics() = default;
  /// The ranks that take the statistics of each call in training together; null: each its own. A clone has
  /// none.
  std::shared_ptr<RankStatistics> ranks;
};

/// (x - mean) / sqrt(var + epsilon) * weight + bias, of each channel of x (N, C) or (N, C, L) for dims = 1,
/// (N, C, H, W) for 2, (N, C, D, H, W) for 3 (Ioffe and Szegedy 2015). In training mean and variance are
/// those of the call's x, over all dimensions but C, and the running statistics follow them; in evaluation
/// the running ones are read. A training call changes buffers: it is for one thread at a time. The rerun of a
/// checkpointed call does not change them again. Throws ShapeError naming the layer for another rank or
/// number of channels, ValueError in training for one value per channel.
template <int dims>
struct BatchNorm : Layer<BatchNorm<dims>, BatchNormOptions>, BatchStatistics {
  /// (C); null for a layer without one. Initially `weight_init` and zeros.
  /// @{
  Variable* weight =
      this->o.affine ? &this->parameter("weight", {this->o.num_features}, this->o.weight_init) : nullptr;
  Variable* bias = this->o.affine ? &this->parameter("bias", {this->o.num_features}, init::zeros()) : nullptr;
  /// @}
  /// (C), buffers, initially zeros and ones; null without `track_running_stats`. The variance is over n - 1.
  /// @{
  Variable* running_mean = this->o.track_running_stats
                               ? &this->buffer("running_mean", {this->o.num_features}, init::zeros())
                               : nullptr;
  Variable* running_var = this->o.track_running_stats
                              ? &this->buffer("running_var", {this->o.num_features}, init::ones())
                              : nullptr;
  /// @}
  /// The number of calls in training, 0-dim i64; null without `track_running_stats`.
  Variable* num_batches_tracked =
      this->o.track_running_stats ? &this->buffer("num_batches_tracked", Tensor::zeros({}, i64)) : nullptr;

  /// Declares parameters and buffers on meta. Throws ConfigError for fewer than one channel.
  /// @{
  explicit BatchNorm(BatchNormOptions options);
  explicit BatchNorm(int64_t num_features) : BatchNorm(BatchNormOptions{.num_features = num_features}) {}
  /// @}
  std::string kind() const override { return text("BatchNorm", dims, "d"); }
  std::string describe_options() const override;
  /// The norm of x, of x's shape.
  Variable forward(const Variable& x) const;
  /// max(norm(x), 0) in the same pass: a norm and the ReLU that follows. Not for statistics over ranks, where
  /// it is the norm and then relu.
  Variable norm_relu(const Variable& x) const;
  /// max(norm(x) + added, 0), the end of a residual block; in one pass as `norm_relu`.
  Variable norm_add_relu(const Variable& x, const Variable& added) const;
  /// Running mean 0, running variance 1, no calls.
  void reset_running_stats() const;

 private:
  /// The norm, with `added`, if it is defined, and then, `with_relu`, relu.
  Variable run(const Variable& x, const Variable& added, bool with_relu) const;
};
/// The batch norms by PyTorch's names.
/// @{
using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;
/// @}

/// Lets every batch norm from `module` down take its statistics in training over these ranks together, or by
/// itself again for null: PyTorch's SyncBatchNorm. Returns how many there are. dist/batch_norm.h gives the
/// ranks of a mesh.
int synchronize_batch_norm(Module& module, const std::shared_ptr<RankStatistics>& ranks);

}  // namespace tessera::nn
