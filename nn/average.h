#pragma once

#include <cstdint>
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
/// precision; buffers are the module's.
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

  /// Averages begin as copies of the parameters. Throws ConfigError for a decay outside [0, 1], for a module
  /// on meta and for a sharded one.
  explicit ExponentialMovingAverage(Module& module, Options options = {});

  /// Takes the parameters' values into the averages. Throws ConfigError while the averages are swapped in.
  void update();
  /// The number of updates.
  int64_t n_averaged() const { return n_averaged_; }

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

  /// "n_averaged", and averages and persistent buffers as "module.NAME", by which AveragedModel saves them.
  StateDict state_dict() const;
  /// Loads what `state_dict` returned; buffers are left as they are. Throws as Module::load_state_dict.
  void load_state_dict(const StateDict& state);

 private:
  struct Entry {
    std::string name;  // relative to the module
    size_t index;      // in the module's parameters()
    Tensor average;    // f32 or f64
    Tensor step;       // counted by the update, and not used
  };
  void begin_swap();
  void end_swap();

  Module& module_;
  Options options_;
  std::vector<Entry> entries_;  // of floating parameters
  std::vector<Tensor> kept_;    // the module's values, while it has the averages
  int64_t n_averaged_ = 0;
  bool swapped_ = false;
};

}  // namespace tessera::nn
