#pragma once  // not in tessera.h

#include <memory>
#include <string>

#include "dist/train/monitors/monitor.h"

namespace tessera::training {

class AppendedFile;

/// Whether this build writes TensorBoard's event files: it was configured where protobuf is installed.
bool tensorboard_is_built();

/// Event files that TensorBoard reads (`tensorboard --logdir FOLDER`, where each run is a folder in FOLDER):
/// scalars, which it has in f32; histograms, of which elements that are not finite are in no bucket but are
/// counted in a scalar NAME/non_finite; texts, which it shows as Markdown; the configuration, as
/// hyper-parameters (where texts that are numbers, "true" or "false" are such values) and as a text
/// "configuration".
///
/// Every `begin` makes a new file, `events.out.tfevents.SECONDS.HOST`, with a name that sorts after those
/// already in the folder. Its second record makes readers drop the later steps of a resumed run, or all
/// earlier files' steps for a new run. No earlier file is changed.
class TensorBoardMonitor : public Monitor {
 public:
  /// The folder of one run; `begin` makes it and the file in it. Throws NotBuiltError naming the missing
  /// packages.
  explicit TensorBoardMonitor(std::string folder);
  ~TensorBoardMonitor() override;

  /// Throws ConfigError when the folder or the file cannot be made, or when an option is there twice.
  void begin(const RunDescription& run) override;
  /// Throws ConfigError before `begin`, when the file cannot be written, and for a name that occurs twice, is
  /// empty or "step".
  void scalars(int64_t step, std::span<const MetricValue> values) override;
  /// Throws ConfigError before `begin`, and when the file cannot be written; DeviceError for values on meta.
  void histogram(int64_t step, const std::string& name, const Tensor& values) override;
  /// Throws ConfigError before `begin`, and when the file cannot be written.
  void text(int64_t step, const std::string& name, const std::string& text) override;
  /// Syncs the file.
  void flush() override;
  /// Writes that the run succeeded, syncs and closes the file.
  void end() override;
  /// Syncs and closes the file, without the mark of an end.
  void close() override;

  /// The event file of this run; "" before `begin`.
  const std::string& path() const { return path_; }

 private:
  void write(const std::string& event);

  std::string folder_, path_;
  std::unique_ptr<AppendedFile> file_;
  int64_t last_step_ = 0;
};

}  // namespace tessera::training
