#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "data/text/corpus.h"
#include "dist/comm/interface/ledger.h"
#include "dist/pipeline/run/pipeline.h"
#include "dist/train/plan/peak_memory.h"
#include "tensor/device.h"
#include "tools/gptlite/resolve.h"

namespace Json {
class Value;
}

namespace tessera::gptlite {

/// The metrics of one finished step.
struct StepMetrics {
  int64_t step = 0;
  double loss = 0;
  std::optional<double> validation_loss;
  double learning_rate = 0;
  double gradient_norm = 0;  ///< infinite or NaN where loss scaling skipped the step
  double loss_scale = 1;
  /// Nothing on a simulated card.
  /// @{
  std::optional<double> step_ms, tokens_per_second, flops_per_second;
  /// @}
  std::optional<double> mfu;                    ///< over the rate of matrix products given to `start`
  dist::TrafficCount sent;                      ///< by this rank since the step before
  std::vector<dist::StageMetrics> stages = {};  ///< by rank of the pipeline; empty without one
};

/// The metrics of a run, for its last line.
struct RunMetrics {
  int64_t step = 0;
  std::optional<double> validation_loss;
  /// Over all steps but the first few, evaluation and saving left out; nothing on a simulated card.
  /// @{
  std::optional<double> tokens_per_second, seconds;
  /// @}
  training::PeakMemory measured;
  training::PeakMemory planned = {};
  int64_t offloaded = 0;  ///< the most bytes of activations that were elsewhere, counted apart
};

/// A rank's metrics file: one JSON object a line, the first {"event":"start", ...}, the last
/// {"event":"end", ...}. Losses and speeds are those of all ranks together; times, memory and traffic are
/// this rank's.
class MetricsFile {
 public:
  /// Appends to `path`, on rank 3 to "run.rank3.jsonl" where it is "run.jsonl"; a line that a killed run left
  /// unfinished is ended first. An empty path writes nothing. Throws ConfigError when the file cannot be
  /// opened.
  MetricsFile(const std::string& path, int rank, int world_size);
  void start(const TrainConfiguration& options, const data::Corpus& corpus, Device device, int64_t first_step,
             std::optional<double> product_rate);
  void step(const StepMetrics& metrics);
  /// The loss of a validation alone, after a step of an earlier process.
  void validation(int64_t step, double loss);
  void end(const RunMetrics& metrics);

 private:
  void write(const Json::Value& object);

  std::string path_;
  int rank_, world_size_;
  std::ofstream file_;
};

}  // namespace tessera::gptlite
