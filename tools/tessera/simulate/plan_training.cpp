#include "tools/tessera/simulate/plan_training.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <utility>
#include <vector>

#include "dist/launch/launch.h"
#include "dist/simulate/search.h"
#include "models/presets.h"
#include "tensor/error.h"
#include "tensor/number_text.h"

namespace tessera::tools {
namespace {

using dist::FoundPlan;
using dist::MachineRates;
using dist::SearchOptions;
using dist::SearchResult;

models::GptOptions model_of(const PlanFlags& f) {
  const int64_t vocabulary = f.vocabulary > 0 ? f.vocabulary : f.preset == "gpt2" ? 50304 : 65;
  models::GptOptions model = models::preset(f.preset, vocabulary).model;
  if (f.block_size > 0) model.block_size = f.block_size;
  return model;
}

DType dtype_of(const PlanFlags& f) {
  require<ConfigError>(f.dtype == "fp32" || f.dtype == "bf16", "plan: expected --dtype fp32 or bf16, got '",
                       f.dtype, "'");
  return f.dtype == "bf16" ? bf16 : f32;
}

/// Those of the flags, or of two ranks of this machine with a thread each.
MachineRates rates_of(const PlanFlags& f) {
  const std::pair<const char*, double> given[] = {{"--flops", f.flops},
                                                  {"--memory-bandwidth", f.memory_bandwidth},
                                                  {"--link-bandwidth", f.link_bandwidth},
                                                  {"--link-latency", f.link_latency},
                                                  {"--node-link-bandwidth", f.node_link_bandwidth},
                                                  {"--node-link-latency", f.node_link_latency}};
  for (const auto& [name, value] : given)
    require<ConfigError>(value >= 0 && std::isfinite(value), "plan: ", name, ": expected 0 or more, got ",
                         value);
  require<ConfigError>(f.link_latency == 0 || f.link_bandwidth > 0,
                       "plan: --link-latency: expected --link-bandwidth beside it");
  require<ConfigError>(f.node_link_latency == 0 || f.node_link_bandwidth > 0,
                       "plan: --node-link-latency: expected --node-link-bandwidth beside it");
  const bool some = f.flops > 0 || f.memory_bandwidth > 0 || f.link_bandwidth > 0;
  const bool all = f.flops > 0 && f.memory_bandwidth > 0 && f.link_bandwidth > 0;
  require<ConfigError>(some == all,
                       "plan: expected --flops, --memory-bandwidth and --link-bandwidth together, or none of "
                       "them for the rates of this machine");
  MachineRates rates;
  if (all) {
    rates = {.flops_per_second = f.flops,
             .memory_bytes_per_second = f.memory_bandwidth,
             .link = {f.link_bandwidth, f.link_latency},
             .overlaps = f.overlaps};
    rates.validate();
    return rates;
  }
  dist::launch(
      [&](dist::World& world) {
        const MachineRates measured = measure_machine(world);
        if (world.rank() == 0) rates = measured;
      },
      {.virtual_ranks = 2, .threads = 1});
  return rates;
}

bool is_block(const nn::LayerSpec& layer) {
  return layer.kind == "Block";
}

std::string bytes_text(int64_t bytes) {
  return with_prefix(static_cast<double>(bytes), "B");
}

/// The command that runs a plan.
std::string command_of(const FoundPlan& plan, const PlanFlags& f, int64_t batch_size) {
  const dist::SimulationOptions& o = plan.options;
  std::string command = f.ranks > 1 ? text("mpirun -n ", f.ranks, " gptlite train") : "gptlite train";
  command += text(" --preset ", f.preset);
  if (f.block_size > 0) command += text(" --block-size ", f.block_size);
  command += text(" --batch-size ", batch_size, " --micro-batch-size ", plan.micro_batch_size);
  if (f.dtype != "fp32") command += " --dtype " + f.dtype;
  if (o.shards * o.replicas > 1)
    command += " --strategy " + to_string(o.strategy);
  else if (o.stages > 1)
    command += " --strategy no_shard";
  if (dist::traits_of(o.strategy).replicates) command += text(" --shard-group-size ", o.shards);
  if (o.stages > 1)
    command += text(" --pipeline-stages ", o.stages, " --pipeline-schedule ", dist::name_of(o.schedule),
                    o.chunks > 0 ? text(" --pipeline-chunks ", o.chunks) : "");
  if (o.activation_budget > 0) command += text(" --activation-checkpoint-budget ", o.activation_budget);
  if (o.checkpointing.interval > 0)
    command += text(" --activation-checkpoint-interval ", o.checkpointing.interval,
                    " --activation-checkpoint-keep ", o.checkpointing.keep.empty() ? "none" : "attention");
  return command;
}

void print_plan(size_t number, const FoundPlan& plan, const SearchResult& result, const PlanFlags& f,
                int64_t batch_size, std::ostream& out) {
  const dist::SimulatedStep& step = plan.step;
  out << "\n"
      << number << ". " << dist::describe_choices(plan.options, plan.micro_batch_size) << "\n   "
      << fixed(1e3 * step.seconds, 2) << " ms a step, "
      << fixed(static_cast<double>(batch_size) / step.seconds, 1) << " sequences a second; bubble "
      << fixed(100 * step.timeline.bubble(), 1) << " %, exposed communication "
      << fixed(100 * step.exposed_communication / step.seconds, 1) << " %; at most "
      << bytes_text(step.peak_bytes()) << " on a rank\n";
  for (const std::string& reason : reasons(plan, result)) out << "   - " << reason << "\n";
  out << "   " << command_of(plan, f, batch_size) << "\n";
  if (f.vocabulary > 0)
    out << "   (of " << with_commas(f.vocabulary) << " words: gptlite takes the vocabulary of its data)\n";
}

[[noreturn]] void refuse(const SearchResult& result, const PlanFlags& f) {
  const auto least = std::min_element(
      result.tried.begin(), result.tried.end(),
      [](const dist::TriedPlan& a, const dist::TriedPlan& b) { return a.peak_bytes < b.peak_bytes; });
  throw ConfigError(text("plan: none of ", result.tried.size(), " candidates fits into ",
                         bytes_text(static_cast<int64_t>(f.memory)), " on a rank; the smallest takes ",
                         least->is_bound ? "more than " : "", bytes_text(least->peak_bytes),
                         least->is_bound
                             ? ", its parameters and the optimizer's state"
                             : ": " + dist::describe_choices(least->options, least->micro_batch_size)));
}

}  // namespace

void plan_training(const PlanFlags& f, std::ostream& out) {
  require<ConfigError>(
      f.ranks >= 1 && f.best >= 1 && f.batch_size >= 0 && f.micro_batch_size >= 0 && f.block_size >= 0,
      "plan: expected at least 1 rank and 1 plan to print, and sizes of 0 or more, got ", f.ranks, " ranks, ",
      f.best, " plans, and sizes ", f.batch_size, ", ", f.micro_batch_size, " and ", f.block_size);
  constexpr int64_t most_ranks = 1 << 24, most_length = 1 << 19, most_tokens = 1 << 27, most_words = 1 << 24;
  require<ConfigError>(f.ranks <= most_ranks, "plan: expected at most ", most_ranks, " ranks, got ", f.ranks);
  require<ConfigError>(f.vocabulary >= 0 && f.vocabulary <= most_words,
                       "plan: expected a vocabulary of at most ", most_words, " words, got ", f.vocabulary);
  require<ConfigError>(f.block_size <= most_length, "plan: expected a block size of at most ", most_length,
                       ", got ", f.block_size);
  require<ConfigError>(f.memory <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
                       "plan: --memory: expected fewer bytes, got ", f.memory);
  const models::GptOptions model = model_of(f);
  const DType dtype = dtype_of(f);
  const MachineRates rates = rates_of(f);
  const int64_t batch_size = f.batch_size > 0 ? f.batch_size : 8 * f.ranks;
  require<ConfigError>(batch_size <= most_tokens * (f.ranks + 1) / model.block_size,
                       "plan: expected at most ", most_tokens, " tokens of a step on a rank, got ",
                       batch_size, " sequences of ", model.block_size, " on ", f.ranks, " ranks");
  SearchOptions search{.ranks = f.ranks,
                       .ranks_per_node = f.ranks_per_node,
                       .between_nodes = rates.link,
                       .batch_size = batch_size,
                       .memory_bytes = static_cast<int64_t>(f.memory),
                       .checkpointing = {{}, {1, {"self_attention"}}, {1, {}}, {2, {}}, {4, {}}},
                       .choices = {.keeps = {{"self_attention"}}, .may = is_block},
                       .common = {}};
  if (f.micro_batch_size > 0) search.micro_batch_sizes = {f.micro_batch_size};
  if (f.node_link_bandwidth > 0) search.between_nodes = {f.node_link_bandwidth, f.node_link_latency};
  search.common.unit_kind = "Block";
  search.common.compute = dtype;
  std::vector<std::unique_ptr<models::Gpt>> gpts;  // profiles refer to them
  const auto profile = [&](int64_t size) {
    models::Gpt& gpt = *gpts.emplace_back(std::make_unique<models::Gpt>(model));
    if (dtype != f32) gpt.to(dtype);
    const Tensor ids = Tensor::empty({size, model.block_size}, i64, meta());
    return std::make_shared<dist::ModelProfile>(gpt.to_layered_model(), nn::LayerValues{Variable(ids)},
                                                std::vector<Tensor>{ids});
  };
  const SearchResult result = search_plans(profile, search, rates, static_cast<size_t>(f.best));
  const auto fitting = std::count_if(result.tried.begin(), result.tried.end(),
                                     [](const dist::TriedPlan& tried) { return tried.fits; });
  if (result.best.empty()) refuse(result, f);
  out << f.preset << ", " << with_commas(batch_size) << " sequences of " << model.block_size
      << " tokens a step on " << f.ranks << (f.ranks == 1 ? " rank" : " ranks") << ": "
      << with_prefix(rates.flops_per_second, "FLOP/s") << ", memory "
      << with_prefix(rates.memory_bytes_per_second, "B/s") << ", link "
      << with_prefix(rates.link.bytes_per_second, "B/s") << "\n"
      << with_commas(std::ssize(result.tried)) << " candidates, of which " << with_commas(fitting)
      << " can fit into "
      << (f.memory > 0 ? bytes_text(static_cast<int64_t>(f.memory)) + " on a rank" : "memory without a limit")
      << "\n";
  for (size_t i = 0; i < result.best.size(); ++i)
    print_plan(i + 1, result.best[i], result, f, batch_size, out);
}

}  // namespace tessera::tools
