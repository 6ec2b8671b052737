#include "tools/gptlite/metrics.h"

#include <json/json.h>

#include <cmath>
#include <sstream>

#include <tessera/build.h>
#include <tessera/version.h>

#include "dist/train/ranks/root_process.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/threads/parallel.h"
#include "tools/gptlite/run.h"

namespace tessera::gptlite {
namespace {

std::string one_line(const Json::Value& value) {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  builder["precision"] = 17;
  return Json::writeString(builder, value);
}

Json::Value by_category(const std::array<int64_t, memory_categories>& bytes) {
  Json::Value v(Json::objectValue);
  for (int c = 0; c < memory_categories; ++c)
    v[to_string(static_cast<MemoryCategory>(c))] = Json::Int64(bytes[c]);
  return v;
}

/// The peak of each category; peaks of different categories may be at different times.
Json::Value memory_by_category() {
  std::array<int64_t, memory_categories> bytes{};
  for (int c = 0; c < memory_categories; ++c)
    bytes[c] = current_account()->count(static_cast<MemoryCategory>(c)).peak;
  return by_category(bytes);
}

Json::Value describe_build() {
  Json::Value v;
  v["version"] = TESSERA_VERSION;
  v["type"] = build::type;
  v["compiler"] = build::compiler;
  v["system"] = build::system;
  v["onednn"] = build::with_onednn;
  v["cuda"] = build::with_cuda;
  return v;
}

/// A field's value as JSON has it.
Json::Value json_of(const training::FieldValue& field) {
  Json::Value value;
  std::istringstream(field.json) >> value;
  return value;
}

/// The options that a checkpoint keeps, those of the model by themselves, and of ranks where there are any.
Json::Value describe_options(const TrainConfiguration& options) {
  const Parallel& parallel = options->run.parallel;
  Json::Value v;
  for (const training::FieldValue& field : options.values()) {
    const char* name = field.info.name;
    if (model_fields().find(name))
      v["model"][name] = json_of(field);
    else if (field.info.on_resume != training::OnResume::not_saved)
      v[name] = json_of(field);
    else if (parallel.is_sharded && parallel_fields().find(name))
      v["parallel"][name] = json_of(field);
  }
  v["model"]["parameters"] = Json::Int64(models::parameter_count(options->run.preset.model));
  if (parallel.is_sharded) v["parallel"]["launcher"] = parallel.launcher;
  return v;
}

Json::Value or_null(std::optional<double> value) {
  return value ? Json::Value(*value) : Json::Value();
}

/// Whether a file ends inside a line.
bool ends_inside_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() <= 0) return false;
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, int rank, int world_size)
    : path_(training::file_of_rank(path, rank)), rank_(rank), world_size_(world_size) {
  if (path.empty()) return;
  const bool is_cut = ends_inside_line(path_);
  file_.open(path_, std::ios::app);
  require<ConfigError>(file_.good(), "--metrics: cannot open '", path_, "' for appending");
  if (is_cut) file_ << '\n';
}

void MetricsFile::write(const Json::Value& object) {
  file_ << one_line(object) << std::endl;  // flushed, so that a reader sees whole lines
  require<ConfigError>(file_.good(), "--metrics: cannot write to '", path_, "'");
}

void MetricsFile::start(const TrainConfiguration& options, const data::Corpus& corpus, Device device,
                        int64_t first_step, std::optional<double> product_rate) {
  if (path_.empty()) return;
  Json::Value v = describe_options(options);
  v["event"] = "start";
  v["step"] = Json::Int64(first_step);
  v["dataset"] = corpus.dataset;
  v["data"] = corpus.source;
  v["entropy"] = or_null(corpus.entropy);
  v["device"] = describe_device(device);
  v["threads"] = num_threads();
  v["rank"] = rank_;
  v["world_size"] = world_size_;
  v["product_flops_per_second"] = or_null(product_rate);
  v["build"] = describe_build();
  write(v);
}

void MetricsFile::step(const StepMetrics& m) {
  if (path_.empty()) return;
  const MemoryCount memory = current_account()->total();
  Json::Value v;
  v["step"] = Json::Int64(m.step);
  v["loss"] = m.loss;
  v["val_loss"] = or_null(m.validation_loss);
  v["lr"] = m.learning_rate;
  v["grad_norm"] = or_null(std::isfinite(m.gradient_norm) ? std::optional(m.gradient_norm) : std::nullopt);
  v["loss_scale"] = m.loss_scale;
  v["step_ms"] = or_null(m.step_ms);
  v["tokens_per_second"] = or_null(m.tokens_per_second);
  v["flops_per_second"] = or_null(m.flops_per_second);
  v["mfu"] = or_null(m.mfu);
  v["memory_allocated"] = Json::Int64(memory.current);
  v["memory_peak"] = Json::Int64(memory.peak);
  v["memory_by_category"] = memory_by_category();
  v["comm_bytes"] = Json::Int64(m.sent.bytes);
  v["comm_ops"] = Json::Int64(m.sent.calls);
  for (const dist::StageMetrics& stage : m.stages) {
    Json::Value of_stage;
    of_stage["busy_ms"] = 1e3 * stage.busy_seconds;
    of_stage["idle"] = stage.idle();
    of_stage["live"] = Json::Int64(stage.most_live);
    v["stages"].append(of_stage);
  }
  v["rank"] = rank_;
  v["world_size"] = world_size_;
  write(v);
}

void MetricsFile::validation(int64_t step, double loss) {
  if (path_.empty()) return;
  Json::Value v;
  v["event"] = "validation";
  v["step"] = Json::Int64(step);
  v["val_loss"] = loss;
  v["rank"] = rank_;
  write(v);
}

void MetricsFile::end(const RunMetrics& m) {
  if (path_.empty()) return;
  Json::Value v;
  v["event"] = "end";
  v["rank"] = rank_;
  v["step"] = Json::Int64(m.step);
  v["val_loss"] = or_null(m.validation_loss);
  v["tokens_per_second"] = or_null(m.tokens_per_second);
  v["seconds"] = or_null(m.seconds);
  v["memory_peak"] = Json::Int64(m.measured.total);
  v["memory_by_category"] = memory_by_category();
  v["memory_at_peak"] = by_category(m.measured.by_category);
  if (m.offloaded > 0) v["offloaded_peak"] = Json::Int64(m.offloaded);
  v["memory_planned"] = Json::Int64(m.planned.total);
  v["memory_planned_at_peak"] = by_category(m.planned.by_category);
  v["peak_rss_bytes"] = Json::Int64(training::peak_resident_bytes());
  write(v);
}

}  // namespace tessera::gptlite
