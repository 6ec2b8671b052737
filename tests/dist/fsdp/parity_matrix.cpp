#include "tests/dist/fsdp/parity_matrix.h"

#include <chrono>
#include <map>
#include <thread>

#include "dist/comm/interface/fault_injection.h"

namespace tessera::test {
namespace {

std::string picture(const dist::Mesh& mesh) {
  return text(mesh.size("replica"), "x", mesh.size("shard"));
}

void note(std::vector<std::string>& all, const std::string& where, const std::vector<std::string>& found) {
  for (const std::string& problem : found) all.push_back(text(where, ": ", problem));
}

/// The strategies that suit a mesh: hybrid ones any, flat ones a mesh of shards alone.
std::vector<dist::Strategy> strategies_on(const dist::Mesh& mesh) {
  std::vector<dist::Strategy> suitable;
  for (const dist::Strategy strategy : dist::strategies)
    if (dist::traits_of(strategy).replicates || mesh.size("replica") == 1) suitable.push_back(strategy);
  return suitable;
}

/// Sleeps, or more often does not, by a rank's own random numbers; one without a seed never does.
class Sleeper {
 public:
  Sleeper() : sleeps_(false) {}
  explicit Sleeper(uint32_t seed) : state_(seed * 2654435761u + 1) {}
  void operator()() {
    if (!sleeps_) return;
    state_ = state_ * 1664525 + 1013904223;
    if (state_ >> 29 == 0) std::this_thread::sleep_for(std::chrono::microseconds(state_ >> 20 & 255));
  }

 private:
  bool sleeps_ = true;
  uint32_t state_ = 0;
};

/// Calls `sleep` at every hook that a module and a parameter have.
void hook_everywhere(nn::Module& root, const std::shared_ptr<Sleeper>& sleep) {
  root.for_each([&](nn::Module& module) {
    module.register_forward_pre_hook([sleep](nn::Module&, std::span<Variable* const>) { (*sleep)(); });
    module.register_forward_hook([sleep](nn::Module&, std::span<Variable* const>) { (*sleep)(); });
    module.register_backward_pre_hook([sleep](nn::Module&, std::vector<Variable>&) { (*sleep)(); });
    module.register_backward_hook([sleep](nn::Module&, std::vector<Variable>&) { (*sleep)(); });
    for (nn::Module::Slot& slot : module.slots())
      if (slot.variable.requires_grad())
        slot.variable.register_accumulated_hook([sleep](const Variable&) { (*sleep)(); });
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
      const ParityOutcome whole = run_sharded(c, setting, mesh);
      for (const dist::Strategy strategy : strategies_on(mesh)) {
        if (strategy == dist::Strategy::no_shard) continue;
        setting.strategy = strategy;
        note(problems, text(c.name, ", ", strategy, " on ", picture(mesh)),
             bit_differences(run_sharded(c, setting, mesh), whole));
      }
    }
  return problems;
}

std::vector<std::string> check_delays(dist::World& world, int rounds) {
  std::vector<std::string> problems;
  const std::vector<dist::Mesh> all = meshes(world);
  std::map<std::pair<size_t, size_t>, ParityOutcome> whole;  // by mesh and case
  for (int round = 0; round < rounds; ++round) {
    const auto r = static_cast<size_t>(round);
    const size_t index = r / all.size() % parity_cases().size();
    const ParityCase& c = parity_cases()[index];
    const dist::Mesh& mesh = all[r % all.size()];
    ParitySetting setting{.steps = 3};
    const auto [reference, is_new] = whole.try_emplace({r % all.size(), index});
    // Hooks divide the graph at modules, and with it the sums of gradients: the reference has them too.
    auto sleep = std::make_shared<Sleeper>();
    setting.when_sharded = [&sleep](nn::Module& model) { hook_everywhere(model, sleep); };
    if (is_new) reference->second = run_sharded(c, setting, mesh);
    const std::vector<dist::Strategy> suitable = strategies_on(mesh);
    setting.strategy = suitable[r / all.size() % suitable.size()];
    sleep = std::make_shared<Sleeper>(static_cast<uint32_t>(round * world.size() + world.rank()));
    const dist::CommHookScope scope([&](dist::CommPoint, const dist::CallHeader&) { (*sleep)(); });
    note(problems, text("round ", round, ", ", c.name, ", ", setting.strategy, " on ", picture(mesh)),
         bit_differences(run_sharded(c, setting, mesh), reference->second));
  }
  return problems;
}

std::vector<std::string> check_undistributed(dist::World& world, DType dtype) {
  std::vector<std::string> problems;
  ParitySetting setting;
  // The order of sums differs: one device adds samples in one product, ranks add their means.
  double tolerance = 2e-5;
  if (dtype == f64) {
    setting.declared = f64;
    tolerance = 1e-12;
  } else if (dtype == bf16) {
    setting.compute = bf16;
    tolerance = 2e-2;  // which now and then rounds an activation the other way: 2^-8, and ten steps of it
  }
  for (const dist::Mesh& mesh : meshes(world))
    for (const ParityCase& c : parity_cases()) {
      const ParityOutcome whole = run_undistributed(c, setting, world.size());
      for (const dist::Strategy strategy : strategies_on(mesh)) {
        setting.strategy = strategy;
        ParityOutcome outcome = run_sharded(c, setting, mesh);
        const Tensor losses = Tensor::from(std::span<const double>(outcome.losses), {setting.steps});
        world.communicator().all_reduce(losses, dist::Reduction::avg).wait();
        outcome.pieces.push_back({"loss", 0, losses});
        note(problems, text(c.name, ", ", strategy, " on ", picture(mesh)),
             differences(outcome, whole, tolerance));
      }
    }
  return problems;
}

}  // namespace tessera::test
