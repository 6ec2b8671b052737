#include "tests/dist/fsdp/parity_matrix.h"

#include <chrono>
#include <map>
#include <thread>

#include "dist/comm/interface/fault_injection.h"

namespace tessera::test {
namespace {

std::string sizes_of(const dist::Mesh& mesh) {
  return text(mesh.size("replica"), "x", mesh.size("shard"));
}

void append(std::vector<std::string>& all, const std::string& where, const std::vector<std::string>& found) {
  for (const std::string& problem : found) all.push_back(text(where, ": ", problem));
}

/// The strategies that suit a mesh: hybrid ones any mesh, flat ones a mesh with shards only.
std::vector<dist::Strategy> strategies_on(const dist::Mesh& mesh) {
  std::vector<dist::Strategy> suitable;
  for (const dist::Strategy strategy : dist::strategies)
    if (dist::traits_of(strategy).replicates || mesh.size("replica") == 1) suitable.push_back(strategy);
  return suitable;
}

/// Sleeps in one of eight calls, by random numbers from a seed; without a seed never.
class RandomDelay {
 public:
  RandomDelay() : sleeps_(false) {}
  explicit RandomDelay(uint32_t seed) : state_(seed * 2654435761u + 1) {}
  void operator()() {
    if (!sleeps_) return;
    state_ = state_ * 1664525 + 1013904223;
    if (state_ >> 29 == 0) std::this_thread::sleep_for(std::chrono::microseconds(state_ >> 20 & 255));
  }

 private:
  bool sleeps_ = true;
  uint32_t state_ = 0;
};

/// Calls `delay` in every hook of modules and parameters.
void add_delays(nn::Module& root, const std::shared_ptr<RandomDelay>& delay) {
  root.for_each([&](nn::Module& module) {
    module.register_forward_pre_hook([delay](nn::Module&, const nn::CallVariables&) { (*delay)(); });
    module.register_forward_hook(
        [delay](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) { (*delay)(); });
    module.register_full_backward_pre_hook([delay](nn::Module&, std::vector<Variable>&) { (*delay)(); });
    module.register_input_gradient_hook([delay](nn::Module&, std::vector<Variable>&) { (*delay)(); });
    for (nn::Module::Entry& entry : module.entries())
      if (entry.variable.requires_grad())
        entry.variable.register_post_accumulate_grad_hook([delay](const Variable&) { (*delay)(); });
  });
}

}  // namespace

const std::vector<ParityCase>& parity_cases() {
  static const std::vector<ParityCase> cases{
      {.name = "plain", .model = plain_model()},
      {.name = "accumulation", .model = plain_model(), .accumulate = Accumulate::communicate},
      {.name = "no_sync", .model = plain_model(), .accumulate = Accumulate::no_sync},
      {.name = "clipping", .model = plain_model(), .max_norm = 0.1},
      {.name = "no_sync and clipping",
       .model = plain_model(),
       .accumulate = Accumulate::no_sync,
       .max_norm = 0.1},
      {.name = "shared", .model = shared_model(), .max_norm = 0.1},
      {.name = "frozen", .model = frozen_model()},
      {.name = "nested", .model = nested_model()},
      {.name = "nested, accumulation", .model = nested_model(), .accumulate = Accumulate::communicate},
      {.name = "uneven", .model = uneven_model(), .max_norm = 0.1, .alignment = 1},
      {.name = "uneven, no_sync", .model = uneven_model(), .accumulate = Accumulate::no_sync, .alignment = 1},
      {.name = "skipped", .model = skipped_model()},
      {.name = "skipped, accumulation", .model = skipped_model(), .accumulate = Accumulate::communicate},
      {.name = "twice", .model = twice_model()},
      {.name = "unused", .model = unused_model()},
      {.name = "branched", .model = branched_model()},
      {.name = "partial", .model = partial_model(), .max_norm = 0.1},
      {.name = "partial, accumulation", .model = partial_model(), .accumulate = Accumulate::communicate},
      {.name = "partial, no_sync", .model = partial_model(), .accumulate = Accumulate::no_sync},
      {.name = "gpt", .model = gpt_model(), .max_norm = 0.1},
      {.name = "gpt, accumulation", .model = gpt_model(), .accumulate = Accumulate::communicate},
      {.name = "lstm", .model = lstm_model(false), .max_norm = 0.1},
      {.name = "lstm, no_sync", .model = lstm_model(false), .accumulate = Accumulate::no_sync},
      {.name = "lstm, checkpointed", .model = lstm_model(true), .accumulate = Accumulate::communicate},
      {.name = "convolutions", .model = convolution_model(false), .max_norm = 0.1},
      {.name = "convolutions, no_sync", .model = convolution_model(false), .accumulate = Accumulate::no_sync},
      {.name = "frozen convolutions", .model = convolution_model(true), .max_norm = 0.1},
      {.name = "encoder", .model = encoder_model(false), .max_norm = 0.1},
      {.name = "encoder, checkpointed", .model = encoder_model(true), .accumulate = Accumulate::communicate},
      {.name = "normed", .model = normed_model(), .max_norm = 0.1},
      {.name = "normed, no_sync", .model = normed_model(), .accumulate = Accumulate::no_sync},
  };
  return cases;
}

std::vector<dist::Mesh> meshes(dist::World& world) {
  std::vector<dist::Mesh> all;
  for (int replicas = 1; replicas <= world.size(); ++replicas)
    if (world.size() % replicas == 0)
      all.emplace_back(world, std::vector<dist::MeshDimension>{{"replica", replicas}, {"shard", -1}});
  return all;
}

std::vector<std::string> check_bits(dist::World& world, std::optional<DType> compute) {
  std::vector<std::string> problems;
  for (const dist::Mesh& mesh : meshes(world))
    for (const ParityCase& c : parity_cases()) {
      ParitySetting setting{.compute = compute};
      const ParityOutcome reference = run_sharded(c, setting, mesh);
      for (const dist::Strategy strategy : strategies_on(mesh)) {
        if (strategy == dist::Strategy::no_shard) continue;
        setting.strategy = strategy;
        append(problems, text(c.name, ", ", strategy, " on ", sizes_of(mesh)),
               bit_differences(run_sharded(c, setting, mesh), reference));
      }
    }
  return problems;
}

std::vector<std::string> check_delays(dist::World& world, int rounds) {
  std::vector<std::string> problems;
  const std::vector<dist::Mesh> all = meshes(world);
  std::map<std::pair<size_t, size_t>, ParityOutcome> references;  // by mesh and case
  for (int round = 0; round < rounds; ++round) {
    const auto r = static_cast<size_t>(round);
    const size_t index = r / all.size() % parity_cases().size();
    const ParityCase& c = parity_cases()[index];
    const dist::Mesh& mesh = all[r % all.size()];
    ParitySetting setting{.steps = 3};
    const auto [reference, is_new] = references.try_emplace({r % all.size(), index});
    // Hooks divide the graph at modules, which changes the sums of gradients: the reference has hooks too.
    auto delay = std::make_shared<RandomDelay>();
    setting.when_sharded = [&delay](nn::Module& model) { add_delays(model, delay); };
    if (is_new) reference->second = run_sharded(c, setting, mesh);
    const std::vector<dist::Strategy> suitable = strategies_on(mesh);
    setting.strategy = suitable[r / all.size() % suitable.size()];
    delay = std::make_shared<RandomDelay>(static_cast<uint32_t>(round * world.size() + world.rank()));
    const dist::CommHookScope scope([&](dist::CommPoint, const dist::CallHeader&) { (*delay)(); });
    append(problems, text("round ", round, ", ", c.name, ", ", setting.strategy, " on ", sizes_of(mesh)),
           bit_differences(run_sharded(c, setting, mesh), reference->second));
  }
  return problems;
}

std::vector<std::string> check_undistributed(dist::World& world, DType dtype) {
  std::vector<std::string> problems;
  ParitySetting setting;
  // Sums have another order: one device adds samples in one product, ranks add their means.
  double tolerance = 2e-5;
  if (dtype == f64) {
    setting.declared = f64;
    tolerance = 1e-12;
  } else if (dtype == bf16) {
    setting.compute = bf16;
    tolerance = 2e-2;  // some activations are rounded to the other neighbour: 2^-8, over ten steps
  }
  for (const dist::Mesh& mesh : meshes(world))
    for (const ParityCase& c : parity_cases()) {
      const ParityOutcome reference = run_undistributed(c, setting, world.size());
      for (const dist::Strategy strategy : strategies_on(mesh)) {
        setting.strategy = strategy;
        ParityOutcome outcome = run_sharded(c, setting, mesh);
        const Tensor losses = Tensor::from(std::span<const double>(outcome.losses), {setting.steps});
        world.communicator().all_reduce(losses, dist::Reduction::avg).wait();
        outcome.shards.push_back({"loss", 0, losses});
        append(problems, text(c.name, ", ", strategy, " on ", sizes_of(mesh)),
               differences(outcome, reference, tolerance));
      }
    }
  return problems;
}

}  // namespace tessera::test
