#include "tests/dist/fsdp/parity_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "autograd/functions/arithmetic.h"
#include "autograd/functions/cast.h"
#include "autograd/functions/loss.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "tensor/ops/cast.h"

namespace tessera::test {
namespace {

constexpr int64_t samples_per_rank = 2, C = parity_width, T = 2, vocabulary = 3;

/// The samples of ranks [rank, rank + ranks) of micro-batch `index` of the run: the same for every sample,
/// however the batch is cut.
ParityBatch make_batch(int64_t index, int rank, int ranks, DType dtype) {
  const int64_t first = rank * samples_per_rank, count = ranks * samples_per_rank;
  const Shape all{1024, C};
  const auto draw = [&](uint64_t key) {
    const Tensor numbers = Tensor::empty({count, C}, f32);
    init::normal(1).fill(numbers, key, all, first * C);
    return numbers;
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

/// A sharded root casts what comes and goes by itself; without one it is done here.
Variable compute(ParityModel& model, const ParityBatch& batch, int64_t step, const ParitySetting& setting) {
  if (!setting.compute || model.store()) return model(Variable(batch.x), batch.ids, step);
  return cast(model(cast(Variable(batch.x), *setting.compute), batch.ids, step), f32);
}

/// What lives around a micro-batch, which others of its step follow or not.
using OpenScope = std::function<std::unique_ptr<dist::Accumulation>(bool is_followed)>;

/// The loop that a user would write.
ParityOutcome train(ParityModel& model, const ParityCase& c, const ParitySetting& setting, int rank,
                    int ranks, const OpenScope& open) {
  ParityOutcome outcome;
  optim::AdamW adam(model.parameters(), {.lr = 1e-2, .eps = 1e-2, .weight_decay = 0.1});
  const int64_t parts = micro_batches(c);
  for (int64_t step = 0; step < setting.steps; ++step) {
    double loss_of_step = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const auto scope = open(part + 1 < parts);
      const ParityBatch batch = make_batch(step * parts + part, rank, ranks, setting.declared);
      const Variable result = compute(model, batch, step, setting);
      const Variable loss = mse_loss(result, batch.target) * (1.0 / static_cast<double>(parts));
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
    outcome.pieces.push_back({"parameter/" + p.name, first[p.name], p.values().clone().view({-1})});
  }
  for (const NamedTensor& t : adam.state().tensors) {
    const size_t slash = t.name.find('/');
    const bool is_count = t.name.substr(0, slash) == "step";
    outcome.pieces.push_back(
        {t.name, is_count ? 0 : first.at(t.name.substr(slash + 1)), t.tensor.clone().view({-1})});
  }
  return outcome;
}

std::map<std::string, const ParityPiece*> by_name(const ParityOutcome& outcome) {
  std::map<std::string, const ParityPiece*> found;
  for (const ParityPiece& piece : outcome.pieces) found[piece.name] = &piece;
  return found;
}

/// Calls `compare(piece, the same elements of whole)` for every piece that `whole` has.
template <class Compare>
void for_each_pair(const ParityOutcome& outcome, const ParityOutcome& whole,
                   std::vector<std::string>& problems, const Compare& compare) {
  const auto expected = by_name(whole);
  if (expected.size() != outcome.pieces.size())
    problems.push_back(text(outcome.pieces.size(), " tensors, expected ", expected.size()));
  for (const ParityPiece& piece : outcome.pieces) {
    const auto found = expected.find(piece.name);
    if (found == expected.end()) {
      problems.push_back(text("'", piece.name, "' is not expected"));
      continue;
    }
    const Tensor& all = found->second->numbers;
    if (piece.numbers.dtype() != all.dtype() || piece.first + piece.numbers.numel() > all.numel()) {
      problems.push_back(text("'", piece.name, "': elements from ", piece.first, " on, ",
                              describe(piece.numbers), ", are no part of ", describe(all)));
      continue;
    }
    compare(piece, all.narrow(0, piece.first, piece.numbers.numel()));
  }
}

}  // namespace

ParityOutcome run_sharded(const ParityCase& c, const ParitySetting& setting, const dist::Mesh& mesh) {
  const std::unique_ptr<ParityModel> model = c.model.make();
  if (setting.declared != f32) model->to(setting.declared);
  dist::ShardOptions options{
      .mesh = mesh, .strategy = setting.strategy, .units = c.model.units, .alignment = c.alignment};
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
  outcome.pieces.push_back(
      {"loss", 0, Tensor::from(std::span<const double>(outcome.losses), {setting.steps})});
  return outcome;
}

std::vector<std::string> bit_differences(const ParityOutcome& outcome, const ParityOutcome& whole) {
  std::vector<std::string> problems;
  for (size_t step = 0; step < whole.losses.size(); ++step)
    if (outcome.losses.at(step) != whole.losses[step])
      problems.push_back(text("the loss of step ", step, " is ", outcome.losses[step],
                              ", expected the bits of ", whole.losses[step]));
  for (size_t step = 0; step < whole.norms.size(); ++step)
    if (outcome.norms.at(step) != whole.norms[step])
      problems.push_back(text("the norm of step ", step, " is ", outcome.norms[step],
                              ", expected the bits of ", whole.norms[step]));
  for_each_pair(outcome, whole, problems, [&](const ParityPiece& piece, const Tensor& expected) {
    if (piece.numbers.numel() > 0 && std::memcmp(piece.numbers.raw_data(), expected.raw_data(),
                                                 static_cast<size_t>(expected.nbytes())) != 0)
      problems.push_back(text("'", piece.name, "' differs in elements from ", piece.first, " on"));
  });
  return problems;
}

std::vector<std::string> differences(const ParityOutcome& outcome, const ParityOutcome& whole,
                                     double tolerance) {
  std::vector<std::string> problems;
  for_each_pair(outcome, whole, problems, [&](const ParityPiece& piece, const Tensor& expected) {
    const Tensor a = ops::cast(piece.numbers, f64), b = ops::cast(expected, f64).contiguous();
    double worst = 0;
    for (int64_t i = 0; i < a.numel(); ++i) {
      const double off = std::abs(a.data<double>()[i] - b.data<double>()[i]);
      worst = std::max(worst, off / std::max(1.0, std::abs(b.data<double>()[i])));
      if (std::isnan(off)) worst = off;
    }
    if (!(worst <= tolerance))
      problems.push_back(text("'", piece.name, "' is off by ", worst, ", allowed ", tolerance));
  });
  return problems;
}

}  // namespace tessera::test
