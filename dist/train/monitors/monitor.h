#pragma once  // not in tessera.h

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace tessera::training {

/// What a run is: given to every monitor when the run begins.
struct RunDescription {
  std::string project = {};            ///< to which the run and others belong; "": none
  std::string name = {};               ///< of the run
  std::vector<std::string> tags = {};  ///< words by which runs are found: "baseline", ...
  /// Names and values of the options, as text. No name twice.
  std::vector<std::pair<std::string, std::string>> configuration = {};
  /// Of a run that continues from a checkpoint: the steps done there. What an earlier process reported for
  /// later steps is removed, so that the series of both is one. -1: a new run, which replaces earlier files.
  int64_t resume_step = -1;
};

/// One value of a step under its name, such as "loss".
struct MetricValue {
  std::string name = {};  ///< of the metric; neither empty nor "step"
  double value = 0;       ///< may be NaN or infinite
};

/// Receives what a training run reports: an abstract class, to which a program adds its own.
///
/// The calls come from one thread, in this order: `begin` before the first step; `scalars` after each step
/// that is reported, with its metrics, and after a validation; `histogram` and `text` where the program
/// has something to report, such as gradients or a sample of the model; `flush` after a checkpoint is saved;
/// `end` after the last step. A run that stops by an exception calls `close` instead of `end`, or nothing.
/// `step` is the number of steps done, so it begins at 1, and does not decrease within a run.
///
/// Only rank 0 has monitors: its values are those of all ranks together, or of rank 0, as the caller says. A
/// program on many ranks makes them where `communicator.rank() == 0`, and reports nothing elsewhere.
class Monitor {
 public:
  Monitor() = default;
  virtual ~Monitor() = default;
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// The run begins, or continues (`RunDescription::resume_step`).
  virtual void begin(const RunDescription& run);
  /// The metrics of a step, each name once.
  virtual void scalars(int64_t step, std::span<const MetricValue> values) = 0;
  /// The distribution of the elements of `values`, of any shape and dtype, on any device with values.
  virtual void histogram(int64_t step, const std::string& name, const Tensor& values);
  /// A text, such as a sample of a language model.
  virtual void text(int64_t step, const std::string& name, const std::string& text);
  /// What was reported so far is to be on the disk when this returns.
  virtual void flush();
  /// The run ended by itself.
  virtual void end();
  /// The run ended by an exception: what was reported is on the disk, and files are closed. `flush` here.
  virtual void close();
};

}  // namespace tessera::training
