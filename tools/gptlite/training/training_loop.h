#pragma once

#include <memory>
#include <optional>

#include "data/loader.h"
#include "dist/checkpoint/background_save.h"
#include "dist/train/profile/step_trace.h"
#include "tools/gptlite/console.h"
#include "tools/gptlite/ranks.h"
#include "tools/gptlite/start.h"
#include "tools/gptlite/training/interrupt.h"
#include "tools/gptlite/training/metrics.h"
#include "tools/gptlite/training/progress.h"
#include "tools/gptlite/training/throughput.h"
#include "tools/gptlite/training/train_step.h"

namespace tessera::gptlite {

/// The files that a rank writes during training.
struct RankFiles {
  /// Throws ConfigError where one cannot be opened for writing.
  RankFiles(const Start& start, const Ranks& ranks);
  MetricsFile metrics;
  training::StepTrace trace;
};

/// A run on one rank, from its start to the last step or a signal. All ranks take the same steps; rank 0
/// prints.
class TrainingLoop {
 public:
  /// `start` and `files` must outlive this. All ranks construct together.
  TrainingLoop(const Start& start, Ranks ranks, RankFiles& files, Device device, Console console);
  /// Returns the exit status: that of the signal that ended the run early, else 0.
  int run();

 private:
  void print_header();
  void step(data::Loader& loader);
  void exchange_step(double& loss);
  void evaluate_if_due();
  void save_if_due();
  void save();
  int finish();

  const TrainOptions& options() const { return *start_.options; }
  const models::Preset& preset() const { return start_.run().preset; }
  bool is_last() const { return done_ == preset().steps; }
  bool is_due(int64_t interval) const { return interval > 0 && (done_ % interval == 0 || is_last()); }

  const Start& start_;
  Ranks ranks_;
  RankFiles& files_;
  Console console_;
  models::Gpt gpt_;
  std::unique_ptr<training::EngineCore> engine_;
  std::shared_ptr<const data::BatchSource> batches_;
  Progress progress_;
  Throughput throughput_;

  std::unique_ptr<dist::BackgroundSave> background_save_;  // null: each save ends before the next step
  int64_t done_;                                           // number of steps
  int64_t saved_ = -1;                                     // the step of the newest checkpoint
  bool has_saved_ = false;                                 // whether this process wrote it
  int signal_ = 0;                                         // the signal that all ranks stop for; 0: none
  dist::TrafficCount sent_;                                // up to the newest step
  StepMetrics last_;                    // of the newest step; with a validation loss where it was evaluated
  std::optional<double> best_loss_;     // the lowest validation loss so far
  std::optional<double> newest_loss_;   // the newest validation loss
  std::optional<double> product_rate_;  // FLOP/s of all ranks' matrix products; measured for the metrics
};

}  // namespace tessera::gptlite
