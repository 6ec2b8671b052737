#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/module.h"

namespace tessera::nn {

/// Options of ExponentialMovingAverage.
struct AverageOptions {
  double decay = 0.999;  ///< of the average in an update; the new values have the weight 1 - decay
};

/// The exponential moving average of a module's parameters over the steps of a training, which often
/// evaluates better than the last values (Polyak & Juditsky 1992). As torch.optim.swa_utils.AveragedModel
/// with `get_ema_multi_avg_fn(decay)`: the first update copies, each further one moves every average by
/// 1 - decay of its distance. All parameters are one pass. Averages are f32 or f64, of masters in mixed
/// precision; buffers are the module's. Of a sharded module each rank averages its shards, without
/// communication; every rank makes the same calls, and `dist::average_shards` saves and loads them.
///
///     nn::ExponentialMovingAverage average(net, {.decay = 0.999});
///     ... adam.step(); average.update(); ...
///     {
///       const auto swapped = average.swap_in();  // until the end of the scope
///       evaluate(net);
///     }
class ExponentialMovingAverage {
 public:
  using Options = AverageOptions;  ///< in braces: `{.decay = 0.99}`

  /// Averages begin as copies of the parameters. Throws ConfigError for a decay outside [0, 1] and for a
  /// module on meta. A module is sharded before.
  explicit ExponentialMovingAverage(Module& module, Options options = {});

  /// Takes the parameters' values into the averages. Throws ConfigError while the averages are swapped in,
  /// and for a module that was sharded since.
  void update();
  /// The number of updates.
  int64_t n_averaged() const { return n_averaged_.item_i64(); }

  /// While it lives, the module computes with the averages.
  class Swapped {
   public:
    /// Keeps the module's values, and copies the averages over them.
    explicit Swapped(ExponentialMovingAverage& average) : average_(average) { average_.begin_swap(); }
    ~Swapped() { average_.end_swap(); }
    Swapped(const Swapped&) = delete;
    Swapped& operator=(const Swapped&) = delete;

   private:
    ExponentialMovingAverage& average_;
  };
  /// Gives the module the averages as values, until the result is destroyed. Throws ConfigError while it has
  /// them already.
  [[nodiscard]] Swapped swap_in() { return Swapped(*this); }

  /// Gives the module the averages as values, for good. Throws ConfigError while it has them by `swap_in`.
  void copy_to_module();

  /// "n_averaged", and averages and persistent buffers as "module.NAME", by which AveragedModel saves them.
  /// Throws ConfigError for a sharded module.
  StateDict state_dict() const;
  /// Loads what `state_dict` returned; buffers are left as they are. Throws as Module::load_state_dict, and
  /// ConfigError for a sharded module.
  void load_state_dict(const StateDict& state);

  /// The averages as a list of parameters, of a sharded module this rank's shards, by names relative to the
  /// module: what a checkpoint saves, and loads in place.
  ParameterList averages() const;
  /// The number of updates as it is saved, and loaded in place: 0-dim i64.
  const Tensor& count() const { return n_averaged_; }

 private:
  struct Entry {
    std::string name;                // relative to the module
    size_t index;                    // in the module's parameters()
    Tensor average;                  // f32 or f64
    Tensor step;                     // counted by the update, and not used
    std::optional<ShardInfo> shard;  // of a sharded parameter
  };
  ParameterList current_parameters(const char* where) const;
  void require_full(const char* where) const;
  void begin_swap();
  void end_swap();

  Module& module_;
  Options options_;
  std::vector<Entry> entries_;  // of floating parameters
  std::vector<Tensor> kept_;    // the module's values, while it has the averages
  Tensor n_averaged_ = Tensor::scalar(int64_t{0});
  bool swapped_ = false;
};

}  // namespace tessera::nn
