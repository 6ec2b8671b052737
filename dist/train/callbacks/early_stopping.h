#pragma once  // not in tessera.h

#include <map>
#include <optional>
#include <string>

#include "dist/train/callbacks/monitored.h"
#include "dist/train/trainer/callback.h"

namespace tessera::training {

/// Options of EarlyStopping.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";  ///< the logged value
  Best best = Best::lowest;          ///< what an improvement is
  double min_delta = 0;              ///< smallest change that is an improvement
  int64_t patience = 3;              ///< validations without an improvement until the training ends
  bool check_finite = true;          ///< a value that is not finite ends it at once
  std::optional<double> stopping_threshold = {};    ///< a better value ends it at once
  std::optional<double> divergence_threshold = {};  ///< a worse value ends it at once
};

/// Ends the training when a logged value no longer improves, judged after each validation.
class EarlyStopping : public Callback {
 public:
  /// Throws ConfigError for a negative patience or min_delta.
  explicit EarlyStopping(EarlyStoppingOptions options = {});

  /// Throws ConfigError where the task does not log the value.
  void on_validation_end(Trainer& trainer, Task& task) override;
  std::map<std::string, std::string> state() const override;
  void load_state(const std::map<std::string, std::string>& state) override;
  std::string state_key() const override { return "early_stopping." + options_.monitor; }

  /// The best value so far, and the validations since.
  /// @{
  double best_value() const { return best_; }
  int64_t waited() const { return waited_; }
  /// @}
  /// Why the training ended; "" where this callback did not end it.
  const std::string& reason() const { return reason_; }

 private:
  EarlyStoppingOptions options_;
  double best_;
  int64_t waited_ = 0;
  std::string reason_;
};

}  // namespace tessera::training
