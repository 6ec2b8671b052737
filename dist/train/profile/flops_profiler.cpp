#include "dist/train/profile/flops_profiler.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "tensor/error.h"

namespace tessera::training {

struct FlopsProfiler::Recording {
  explicit Recording(int64_t step) : scope(profiler), span(std::in_place, SpanKind::step, "step", step) {}

  Profiler profiler;
  ProfilerScope scope;
  std::optional<SpanScope> span;
};

void FlopsProfilerOptions::validate() const {
  require<ConfigError>(profile_step >= 0, "flops_profiler: profile_step: expected 0 or more, got ",
                       profile_step);
  require<ConfigError>(module_depth >= -1, "flops_profiler: module_depth: expected -1 or more, got ",
                       module_depth);
  require<ConfigError>(top_modules >= 1, "flops_profiler: top_modules: expected 1 or more, got ",
                       top_modules);
}

FlopsProfiler::FlopsProfiler(nn::Module& module, FlopsProfilerOptions options, double machine_flops)
    : module_(module), o_(std::move(options)), machine_flops_(machine_flops) {
  o_.validate();
  require<ConfigError>(machine_flops >= 0, "flops_profiler: machine_flops: expected 0 or more, got ",
                       machine_flops);
}

FlopsProfiler::~FlopsProfiler() = default;

void FlopsProfiler::begin_step(int64_t step) {
  require<ValueError>(!in_step_, "FlopsProfiler::begin_step: step ", step_, " was not ended before step ",
                      step);
  if (o_.enabled && step == o_.profile_step) recording_ = std::make_unique<Recording>(step);
  in_step_ = true;
  step_ = step;
}

void FlopsProfiler::end_step(int64_t samples) {
  require<ValueError>(in_step_, "FlopsProfiler::end_step: no step was begun");
  in_step_ = false;
  if (!recording_) return;
  const std::unique_ptr<Recording> recording = std::move(recording_);
  recording->span.reset();
  FlopsProfile profile = profile_from(module_, recording->profiler, span_origin().rank);
  profile.step = step_;
  profile.samples = samples;
  profile.machine_flops = machine_flops_;
  profile_ = std::move(profile);
  if (o_.output_file.empty()) return;
  const std::filesystem::path path(o_.output_file);
  std::error_code ignored;  // the file's own error names the path
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream file(path);
  file << report();
  file.flush();
  require<ConfigError>(file.good(), "flops_profiler: output_file: cannot write '", o_.output_file, "'");
}

std::string FlopsProfiler::report() const {
  require<ValueError>(profile_.has_value(), "FlopsProfiler::report: step ", o_.profile_step,
                      " was not profiled yet");
  return flops_report(*profile_, {o_.module_depth, o_.top_modules, o_.detailed});
}

}  // namespace tessera::training
