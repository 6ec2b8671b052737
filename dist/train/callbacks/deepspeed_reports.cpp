#include "dist/train/callbacks/deepspeed_reports.h"

#include <algorithm>
#include <filesystem>

#include "dist/train/callbacks/prints/flops_printer.h"
#include "dist/train/callbacks/prints/step_log_printer.h"
#include "dist/train/deepspeed/reports.h"
#include "dist/train/monitors/csv.h"
#include "dist/train/monitors/tensorboard.h"

namespace tessera::training {
namespace {

template <class Class, class Object>
bool has(const std::vector<std::shared_ptr<Object>>& objects) {
  return std::any_of(objects.begin(), objects.end(), [](const std::shared_ptr<Object>& object) {
    return dynamic_cast<const Class*>(object.get()) != nullptr;
  });
}

/// What a configuration asks for without what is there.
deepspeed::Reports missing_of(const TrainerOptions& options, deepspeed::Reports reports) {
  if (has<StepLogPrinter>(options.callbacks)) reports.step_log.reset();
  if (has<FlopsPrinter>(options.callbacks)) reports.flops_profiler.reset();
  if (has<TensorBoardMonitor>(options.monitors)) reports.tensorboard.clear();
  if (has<CsvMonitor>(options.monitors)) reports.csv_monitor.clear();
  return reports;
}

}  // namespace

void add_deepspeed_reports(TrainerOptions& options, std::ostream& out) {
  add_deepspeed_reports(options, options.strategy.reports(), out);
}

void add_deepspeed_reports(TrainerOptions& options, const deepspeed::Reports& asked, std::ostream& out) {
  const deepspeed::Reports reports = missing_of(options, asked);
  if (reports.step_log) options.callbacks.push_back(std::make_shared<StepLogPrinter>(out, *reports.step_log));
  if (reports.flops_profiler)
    options.callbacks.push_back(
        std::make_shared<FlopsPrinter>(out, FlopsPrinterOptions{.profile = *reports.flops_profiler}));
  if (!reports.tensorboard.empty())
    options.monitors.push_back(std::make_shared<TensorBoardMonitor>(reports.tensorboard));
  if (reports.csv_monitor.empty()) return;
  std::error_code ignored;  // `begin` of the monitor says what is wrong with the path
  std::filesystem::create_directories(std::filesystem::path(reports.csv_monitor).parent_path(), ignored);
  options.monitors.push_back(std::make_shared<CsvMonitor>(reports.csv_monitor));
}

std::string missing_deepspeed_reports(const TrainerOptions& options) {
  const deepspeed::Reports reports = missing_of(options, options.strategy.reports());
  std::string keys;
  const auto add = [&](bool is_missing, const char* key) {
    if (is_missing) keys += std::string(keys.empty() ? "" : ", ") + key;
  };
  add(reports.step_log.has_value(), "steps_per_print");
  add(reports.step_log && reports.step_log->wall_clock_breakdown, "wall_clock_breakdown");
  add(reports.flops_profiler.has_value(), "flops_profiler");
  add(!reports.tensorboard.empty(), "tensorboard");
  add(!reports.csv_monitor.empty(), "csv_monitor");
  return keys;
}

}  // namespace tessera::training
