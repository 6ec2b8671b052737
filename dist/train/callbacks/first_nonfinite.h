#pragma once  // not in tessera.h

#include <cstdint>
#include <string>
#include <vector>

#include "dist/train/trainer/callback.h"
#include "nn/module.h"

namespace tessera::training {

/// Options of FirstNonFinite.
struct FirstNonFiniteOptions {
  bool outputs = true;     ///< of each call of a module in training
  bool parameters = true;  ///< before the first step, and after each one
  /// Whether the run ends with a NonFiniteError; else `found` says it, and the run goes on.
  bool throws = true;
};

/// Finds where NaN or infinity first appears: in a module's output or a parameter, by name and step. (For a
/// gradient the engine's own error has the same.) Of nested modules the innermost is named, since its call
/// ends first. It reads every output: for a run that fails, not for all runs.
///
///     step 12: the output of 'blocks.3.mlp' is not finite, and its inputs are finite
class FirstNonFinite : public Callback {
 public:
  /// As given.
  explicit FirstNonFinite(FirstNonFiniteOptions options = {}) : options_(options) {}
  ~FirstNonFinite() override;

  /// Where hooks of the modules are registered and removed, and parameters are read. Throw NonFiniteError.
  /// @{
  void on_train_start(Trainer& trainer, Task& task) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_train_end(Trainer& trainer, Task& task) override;
  void on_exception(Trainer& trainer, Task& task, const std::exception& error) override;
  /// @}
  /// The first value that is not finite, as in the example; "" where all were finite. Of parameters the same
  /// on every rank, of outputs that of this rank.
  const std::string& found() const { return found_; }

 private:
  void check_outputs(const nn::Module& module, const nn::CallVariables& inputs,
                     const nn::CallVariables& outputs);
  void check_parameters(Trainer& trainer);
  void report(std::string found);
  void remove_hooks();

  FirstNonFiniteOptions options_;
  std::string found_;
  std::vector<HookHandle> hooks_;
  int64_t step_ = 1;          // that runs
  int64_t checked_step_ = 0;  // of the parameters
};

}  // namespace tessera::training
