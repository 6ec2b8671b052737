#pragma once

#include <memory>
#include <optional>

#include "data/loader.h"
#include "tools/gptlite/console.h"
#include "tools/gptlite/interrupt.h"
#include "tools/gptlite/metrics.h"
#include "tools/gptlite/parallelize.h"
#include "tools/gptlite/progress.h"
#include "tools/gptlite/ranks.h"
#include "tools/gptlite/speed.h"
#include "tools/gptlite/start.h"
#include "tools/gptlite/step_profile.h"
#include "tools/gptlite/trainer.h"

namespace tessera::gptlite {

/// The files that a rank writes while it trains.
struct RankFiles {
  /// Throws ConfigError where one cannot be written.
  RankFiles(const TrainFlags& flags, const Start& start, const Ranks& ranks);
  MetricsFile metrics;
  StepProfile profile;
};

/// One rank's part of a run: from a start to the last step or a signal. All ranks take the same steps, and
/// the first one prints.
class Training {
 public:
  /// `start` and `files` stay with the caller. All ranks construct together.
  Training(const TrainFlags& flags, const Start& start, Ranks ranks, RankFiles& files, Device device,
           Console console);
  /// Returns the exit status: that of the signal which ended it early, else 0.
  int run();

 private:
  void announce();
  void step(data::Loader& loader);
  void share_step(double& loss);
  void evaluate_if_due();
  void save_if_due();
  void save();
  int finish();

  const models::Preset& recipe() const { return start_.run.recipe; }
  bool is_last() const { return done_ == recipe().steps; }
  bool is_due(int64_t interval) const { return interval > 0 && (done_ % interval == 0 || is_last()); }

  const TrainFlags& flags_;
  const Start& start_;
  Ranks ranks_;
  RankFiles& files_;
  Console console_;
  ParallelModel model_;
  std::unique_ptr<optim::AdamW> adam_;
  optim::Schedule schedule_;
  std::shared_ptr<const data::BatchSource> batches_;
  Progress progress_;
  Speed speed_;

  std::unique_ptr<dist::BackgroundSave> behind_;  // null: saves are waited for
  int64_t done_;                                  // steps
  int64_t saved_ = -1;                            // the step of the newest checkpoint
  bool has_saved_ = false;                        // that one, here
  int signal_ = 0;                                // that all ranks stop for
  dist::TrafficCount sent_;                       // until the newest step
  StepMetrics last_;                    // the newest step; its validation loss is there when it was evaluated
  std::optional<double> best_;          // the lowest validation loss so far
  std::optional<double> newest_;        // the newest one
  std::optional<double> product_rate_;  // FLOP/s of all ranks' matrix products; measured for the metrics
};

}  // namespace tessera::gptlite
