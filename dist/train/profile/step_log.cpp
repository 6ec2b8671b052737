#include "dist/train/profile/step_log.h"

#include <cstdio>
#include <utility>

#include "tensor/error.h"

namespace tessera::training {
namespace {

StepLogOptions checked(StepLogOptions options) {
  require<ConfigError>(options.steps_per_print >= 1, "StepLog: steps_per_print: expected 1 or more, got ",
                       options.steps_per_print);
  if (!options.account) options.account = current_account();
  return options;
}

std::string fixed(double value, int decimals) {
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.*f", decimals, value);
  return digits;
}

std::string gigabytes(double bytes) {
  return fixed(bytes / static_cast<double>(int64_t{1} << 30), 3) + "GB";
}

std::string place(int64_t epoch, int64_t epochs, int64_t step) {
  return text("[", epoch, "/", epochs < 0 ? std::string("?") : std::to_string(epochs), "; ", step, "]");
}

}  // namespace

StepLog::StepLog(StepLogOptions options)
    : o_(checked(std::move(options))), clock_({.window = o_.steps_per_print, .clock = o_.clock}) {}

std::optional<std::string> StepLog::end_step(int64_t samples) {
  require<ValueError>(samples >= 0, "StepLog::end_step: expected 0 samples or more, got ", samples);
  clock_.end_step();
  samples_ += samples;
  const MemoryCount memory = o_.account->total();
  bytes_ += static_cast<double>(memory.current);
  if (clock_.steps() % o_.steps_per_print != 0) return std::nullopt;
  IntervalMetrics m{.step = clock_.steps(), .samples = std::exchange(samples_, 0)};
  m.times = clock_.mean();
  const auto steps = static_cast<double>(o_.steps_per_print);
  m.seconds = m.times.total * steps;
  m.samples_per_second = m.seconds > 0 ? static_cast<double>(m.samples) / m.seconds : 0;
  m.average_bytes = std::exchange(bytes_, 0) / steps;
  m.maximum_bytes = memory.peak;
  std::string block = text("step=", m.step, ", AvgSamplesPerSec=", fixed(m.samples_per_second, 2),
                           ", AvgMemAllocated=", gigabytes(m.average_bytes),
                           ", MaxMemAllocated=", gigabytes(static_cast<double>(m.maximum_bytes)));
  if (o_.wall_clock_breakdown) block += "\n" + clock_.breakdown();
  metrics_ = m;
  o_.log.info("train.step", block);
  return block + "\n";
}

std::string loss_line(int64_t epoch, int64_t epochs, int64_t step, double loss) {
  return place(epoch, epochs, step) + " loss: " + fixed(loss, 5);
}
std::string valid_loss_line(int64_t epoch, int64_t epochs, int64_t step, double loss) {
  return place(epoch, epochs, step) + " valid loss: " + fixed(loss, 5);
}
std::string finished_line(double seconds) {
  return text("Finished training after ", seconds, " seconds.");
}
std::string test_loss_line(double loss) {
  return "Final test loss: " + fixed(loss, 5);
}
std::string epoch_line(int64_t epoch, double loss) {
  return text("Epoch: ", epoch, ", Loss: ", loss);
}

}  // namespace tessera::training
