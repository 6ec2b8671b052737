#include "dist/train/deepspeed/reports.h"

#include <filesystem>
#include <string_view>

namespace tessera::training::deepspeed {
namespace {

/// The member of a table; nothing where there is none, and for null.
std::optional<JsonNode> member_of(const JsonNode& table, std::string_view name) {
  const std::optional<JsonNode> value = table.find(name);
  return value && value->kind() != "null" ? value : std::nullopt;
}

/// A block with `enabled`: true; nothing for others.
std::optional<JsonNode> enabled_block(const JsonNode& root, std::string_view name) {
  const std::optional<JsonNode> block = member_of(root, name);
  if (!block) return std::nullopt;
  const std::optional<JsonNode> enabled = member_of(*block, "enabled");
  return enabled && enabled->as_bool() ? block : std::nullopt;
}

std::optional<StepLogOptions> step_log_of(const JsonNode& root) {
  const std::optional<JsonNode> steps = member_of(root, "steps_per_print"),
                                times = member_of(root, "wall_clock_breakdown");
  StepLogOptions options;
  if (times) options.wall_clock_breakdown = times->as_bool();
  if (!steps && !options.wall_clock_breakdown) return std::nullopt;
  if (steps) options.steps_per_print = steps->as_integer();
  if (options.steps_per_print < 0) steps->fail("a whole number of at least 0");
  return options.steps_per_print > 0 ? std::optional(options) : std::nullopt;
}

std::optional<FlopsProfilerOptions> flops_profiler_of(const JsonNode& root) {
  const std::optional<JsonNode> block = enabled_block(root, "flops_profiler");
  if (!block) return std::nullopt;
  FlopsProfilerOptions options{.enabled = true};
  if (const auto step = member_of(*block, "profile_step")) options.profile_step = step->as_integer();
  if (const auto depth = member_of(*block, "module_depth"))
    options.module_depth = static_cast<int>(depth->as_integer());
  if (const auto count = member_of(*block, "top_modules"))
    options.top_modules = static_cast<int>(count->as_integer());
  if (const auto detailed = member_of(*block, "detailed")) options.detailed = detailed->as_bool();
  if (const auto file = member_of(*block, "output_file")) options.output_file = file->as_text();
  return options;
}

/// OUTPUT_PATH/JOB_NAME; "" where the block is not enabled.
std::filesystem::path folder_of(const JsonNode& root, std::string_view name) {
  const std::optional<JsonNode> block = enabled_block(root, name);
  if (!block) return {};
  const std::optional<JsonNode> path = member_of(*block, "output_path"), job = member_of(*block, "job_name");
  return std::filesystem::path(path ? path->as_text() : "") / (job ? job->as_text() : "DeepSpeedJobName");
}

}  // namespace

Reports reports_of(const JsonDocument& document) {
  const JsonNode root = document.root();
  const std::filesystem::path csv = folder_of(root, "csv_monitor");
  return {.step_log = step_log_of(root),
          .flops_profiler = flops_profiler_of(root),
          .tensorboard = folder_of(root, "tensorboard").string(),
          .csv_monitor = csv.empty() ? "" : (csv / "metrics.csv").string()};
}

}  // namespace tessera::training::deepspeed
