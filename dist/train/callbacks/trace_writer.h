#pragma once  // not in tessera.h

#include <iosfwd>
#include <optional>
#include <string>

#include "dist/train/profile/step_trace.h"
#include "dist/train/trainer/callback.h"
#include "tensor/profile/span.h"

namespace tessera::training {

/// Options of TraceWriter.
struct TraceWriterOptions {
  /// Of the trace. Ranks that are threads share one; of several processes rank 1 writes NAME.rank1.json.
  std::string path;
  std::string steps = {};         ///< "A:B", counted from 1; "": ten after five of warm-up
  std::ostream* table = nullptr;  ///< rank 0 prints the operations by their time to it; null: nowhere
};

/// Records some steps of a fit and writes their trace in Chrome's format at its end (`StepTrace`).
class TraceWriter : public Callback {
 public:
  /// Throws ConfigError for an empty path.
  explicit TraceWriter(TraceWriterOptions options);

  /// The points at which it acts. The first throws ConfigError for steps that the run does not take, and for
  /// a file that cannot be opened.
  /// @{
  void on_fit_start(Trainer& trainer, Task& task) override;
  void on_before_train_batch(Trainer& trainer, Task& task) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  void on_fit_end(Trainer& trainer, Task& task) override;
  void on_exception(Trainer& trainer, Task& task, const std::exception& error) override;
  /// @}

 private:
  TraceWriterOptions options_;
  std::optional<StepTrace> trace_;
  std::optional<SpanScope> step_;  // the step that runs
};

}  // namespace tessera::training
