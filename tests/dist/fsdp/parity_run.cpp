#include "tests/dist/fsdp/parity_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/layers/loss.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "optim/clip.h"
#include "optim/rules/adam.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera::test {
namespace {

constexpr int64_t samples_per_rank = 2, C = parity_width, T = 2, vocabulary = 3;

/// The samples of ranks [rank, rank + ranks) of micro-batch `index` of the run. A sample does not depend on
/// how the batch is divided.
ParityBatch make_batch(int64_t index, int rank, int ranks, DType dtype) {
  const int64_t first = rank * samples_per_rank, count = ranks * samples_per_rank;
  const Shape all{1024, C};
  const auto draw = [&](uint64_t key) {
    const Tensor values = Tensor::empty({count, C}, f32);
    init::normal(1).fill(values, key, all, first * C);
    return values;
  };
  const auto key = static_cast<uint64_t>(1000 + 3 * index);
  const Tensor ids = Tensor::empty({count, T}, i64);
  const Tensor noise = draw(key + 2);
  for (int64_t i = 0; i < count * T; ++i)
    ids.data<int64_t>()[i] =
        std::abs(static_cast<int64_t>(noise.data<float>()[i / T * C + i % T] * 100)) % vocabulary;
  return {ops::cast(draw(key), dtype), ids, ops::cast(draw(key + 1), dtype)};
}

int64_t micro_batches(const ParityCase& c) {
  return c.accumulate == Accumulate::none ? 1 : 3;
}

/// A sharded root casts its inputs and results itself; without sharding it is done here.
Variable compute(ParityModel& model, const ParityBatch& batch, int64_t step, const ParitySetting& setting) {
  if (!setting.compute || model.store()) return model(Variable(batch.x), batch.ids, step);
  return cast(model(cast(Variable(batch.x), *setting.compute), batch.ids, step), f32);
}

/// The scope of a micro-batch, which may be followed by others of the same step.
using OpenScope = std::function<std::unique_ptr<dist::Accumulation>(bool is_followed)>;

/// The training loop of a user.
ParityOutcome train(ParityModel& model, const ParityCase& c, const ParitySetting& setting, int rank,
                    int ranks, const OpenScope& open) {
  ParityOutcome outcome;
  optim::AdamW adam(model.parameters(), {.lr = 1e-2, .eps = 1e-2, .weight_decay = 0.1});
  const int64_t count = micro_batches(c);
  for (int64_t step = 0; step < setting.steps; ++step) {
    double loss_of_step = 0;
    for (int64_t i = 0; i < count; ++i) {
      const auto scope = open(i + 1 < count);
      const ParityBatch batch = make_batch(step * count + i, rank, ranks, setting.declared);
      const Variable result = compute(model, batch, step, setting);
      const Variable loss = mse_loss(result, batch.target) * (1.0 / static_cast<double>(count));
      loss_of_step += loss.item();
      loss.backward();
    }
    outcome.losses.push_back(loss_of_step);
    if (c.max_norm > 0) outcome.norms.push_back(optim::clip_grad_norm(model.parameters(), c.max_norm).item());
    adam.step();
    adam.zero_grad();
  }
  std::map<std::string, int64_t> first;
  for (const NamedParameter& p : model.parameters()) {
    first[p.name] = p.shard ? p.shard->first : 0;
    outcome.shards.push_back({"parameter/" + p.name, first[p.name], p.values().clone().view({-1})});
  }
  for (const NamedTensor& t : adam.state().tensors) {
    const size_t slash = t.name.find('/');
    const bool is_count = t.name.substr(0, slash) == "step";
    outcome.shards.push_back(
        {t.name, is_count ? 0 : first.at(t.name.substr(slash + 1)), t.tensor.clone().view({-1})});
  }
  return outcome;
}

std::map<std::string, const ParityShard*> by_name(const ParityOutcome& outcome) {
  std::map<std::string, const ParityShard*> found;
  for (const ParityShard& shard : outcome.shards) found[shard.name] = &shard;
  return found;
}

/// Calls `compare(shard, the same elements of reference)` for every shard that `reference` has.
template <class Compare>
void for_each_pair(const ParityOutcome& outcome, const ParityOutcome& reference,
                   std::vector<std::string>& problems, const Compare& compare) {
  const auto expected = by_name(reference);
  if (expected.size() != outcome.shards.size())
    problems.push_back(text(outcome.shards.size(), " tensors, expected ", expected.size()));
  for (const ParityShard& shard : outcome.shards) {
    const auto found = expected.find(shard.name);
    if (found == expected.end()) {
      problems.push_back(text("'", shard.name, "' is not expected"));
      continue;
    }
    const Tensor& all = found->second->values;
    if (shard.values.dtype() != all.dtype() || shard.first + shard.values.numel() > all.numel()) {
      problems.push_back(text("'", shard.name, "': elements from ", shard.first, " on, ",
                              describe(shard.values), ", are outside of ", describe(all)));
      continue;
    }
    compare(shard, all.narrow(0, shard.first, shard.values.numel()));
  }
}

}  // namespace

ParityOutcome run_sharded(const ParityCase& c, const ParitySetting& setting, const dist::Mesh& mesh) {
  const std::unique_ptr<ParityModel> model = c.model.make();
  if (setting.declared != f32) model->to(setting.declared);
  dist::ShardOptions options{.mesh = mesh,
                             .strategy = setting.strategy,
                             .units = c.model.units,
                             .forward_prefetch = setting.forward_prefetch,
                             .messages = setting.messages,
                             .alignment = c.alignment};
  if (setting.compute) options.precision = {.compute = setting.compute, .output = f32};
  dist::Sharding& sharding = dist::shard(*model, options);
  if (setting.when_sharded) setting.when_sharded(*model);
  nn::materialize(*model, cpu(), 1337);
  const dist::World& world = mesh.world();
  return train(*model, c, setting, world.rank(), 1, [&](bool is_followed) {
    return is_followed
               ? std::make_unique<dist::Accumulation>(sharding, c.accumulate == Accumulate::communicate)
               : nullptr;
  });
}

ParityOutcome run_undistributed(const ParityCase& c, const ParitySetting& setting, int ranks) {
  const std::unique_ptr<ParityModel> model = c.model.make();
  if (setting.declared != f32) model->to(setting.declared);
  nn::materialize(*model, cpu(), 1337);
  if (setting.compute) nn::use_mixed_precision(*model, *setting.compute);
  ParityOutcome outcome = train(*model, c, setting, 0, ranks, [](bool) { return nullptr; });
  outcome.shards.push_back(
      {"loss", 0, Tensor::from(std::span<const double>(outcome.losses), {setting.steps})});
  return outcome;
}

std::vector<std::string> bit_differences(const ParityOutcome& outcome, const ParityOutcome& reference) {
  std::vector<std::string> problems;
  for (size_t step = 0; step < reference.losses.size(); ++step)
    if (outcome.losses.at(step) != reference.losses[step])
      problems.push_back(text("the loss of step ", step, " is ", outcome.losses[step],
                              ", expected the bits of ", reference.losses[step]));
  for (size_t step = 0; step < reference.norms.size(); ++step)
    if (outcome.norms.at(step) != reference.norms[step])
      problems.push_back(text("the norm of step ", step, " is ", outcome.norms[step],
                              ", expected the bits of ", reference.norms[step]));
  for_each_pair(outcome, reference, problems, [&](const ParityShard& shard, const Tensor& expected) {
    if (shard.values.numel() > 0 && std::memcmp(shard.values.raw_data(), expected.raw_data(),
                                                static_cast<size_t>(expected.nbytes())) != 0)
      problems.push_back(text("'", shard.name, "' differs in elements from ", shard.first, " on"));
  });
  return problems;
}

std::vector<std::string> differences(const ParityOutcome& outcome, const ParityOutcome& reference,
                                     double tolerance) {
  std::vector<std::string> problems;
  for_each_pair(outcome, reference, problems, [&](const ParityShard& shard, const Tensor& expected) {
    const Tensor a = ops::cast(shard.values, f64), b = ops::cast(expected, f64).contiguous();
    double worst = 0;
    for (int64_t i = 0; i < a.numel(); ++i) {
      const double error = std::abs(a.data<double>()[i] - b.data<double>()[i]);
      worst = std::max(worst, error / std::max(1.0, std::abs(b.data<double>()[i])));
      if (std::isnan(error)) worst = error;
    }
    if (!(worst <= tolerance))
      problems.push_back(text("'", shard.name, "' is off by ", worst, ", allowed ", tolerance));
  });
  return problems;
}

}  // namespace tessera::test
