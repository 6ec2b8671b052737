#include "tools/tessera/sharded_step.h"

#include <fstream>
#include <optional>
#include <ostream>
#include <vector>

#include "dist/fsdp/shard.h"
#include "dist/fsdp/unit.h"
#include "dist/launch/launch.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/adam.h"
#include "tools/tessera/step_timeline.h"
#include "tools/tessera/text_table.h"

namespace tessera::tools {
namespace {

using dist::Strategy;

/// Bytes that a strategy's formula is made of.
struct Whole {
  int64_t parameters = 0, root = 0, gradients = 0;
};

Whole whole_of(const dist::Sharding& sharding) {
  Whole whole;
  for (const auto& unit : sharding.units())
    for (const auto& flat : unit->flats()) {
      const int64_t bytes = 4 * flat->layout().numel();
      whole.parameters += bytes;
      if (unit == sharding.units().front()) whole.root += bytes;
      if (flat->is_trainable()) whole.gradients += bytes;
    }
  return whole;
}

/// A step's calls but those of scalars.
void print_calls(const std::vector<dist::LedgerEntry>& entries, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"call", "of", "for", "whole bytes", "sent by rank 0"}};
  int64_t control = 0;
  for (const dist::LedgerEntry& entry : entries) {
    if (entry.traffic == dist::Traffic::control) {
      ++control;
      continue;
    }
    rows.push_back({name_of(entry.kind), name_of(entry.traffic), entry.unit, with_commas(entry.bytes),
                    with_commas(entry.bytes_sent)});
  }
  out << text_table(rows) << "Not listed, " << control
      << " for words between ranks: which units backward reached.\n";
}

void print_sums(Strategy strategy, int ranks, const Whole& whole,
                const std::vector<dist::LedgerEntry>& entries, std::ostream& out) {
  const auto [G, G0, R] = whole;
  const char* formula = "2R";
  int64_t bytes = 2 * R;
  if (strategy == Strategy::shard_optim || strategy == Strategy::shard_grad_op)
    formula = "G + R", bytes = G + R;
  if (strategy == Strategy::full_shard) formula = "2G - G0 + R", bytes = 2 * G - G0 + R;
  int64_t sent = 0;
  for (const dist::LedgerEntry& entry : entries)
    if (entry.traffic != dist::Traffic::control) sent += entry.bytes_sent;
  out << "\nG  = " << with_commas(G) << " bytes of parameters\nG0 = " << with_commas(G0)
      << " of them the root's\nR  = " << with_commas(R) << " bytes of gradients\nThe formula: (" << formula
      << ") * " << ranks - 1 << "/" << ranks << " = " << with_commas(bytes / ranks * (ranks - 1))
      << " bytes.\nThe ledger:  " << with_commas(sent) << " bytes.\n";
}

/// What rank 0 keeps of its last step.
struct Kept {
  std::vector<dist::LedgerEntry> entries;
  Whole whole;
  std::string picture;
};

void train(const ShardedStepOptions& o, Strategy strategy, dist::World& world, Profiler& profiler,
           Kept& kept) {
  constexpr int64_t T = 64, vocabulary = 65;
  models::Gpt gpt(
      {.vocabulary = vocabulary, .block_size = T, .layers = o.layers, .heads = 4, .width = o.width});
  dist::Sharding& sharding = dist::shard(
      gpt, {.mesh = dist::Mesh(world), .strategy = strategy, .units = dist::every<models::Block>()});
  nn::materialize(gpt, cpu(), 1337);
  optim::AdamW adam(gpt.parameters());
  const Tensor ids = Tensor::empty({o.batch_size, T}, i64);
  for (int64_t i = 0; i < ids.numel(); ++i) ids.data<int64_t>()[i] = (7 * i + world.rank()) % vocabulary;
  dist::Communicator& all = world.communicator();
  const auto step = [&](int64_t number) {
    const SpanScope span(SpanKind::step, "step", number);
    Variable loss;
    {
      const SpanScope phase(SpanKind::phase, "forward");
      loss = gpt(ids, ids);
    }
    loss.backward();
    const SpanScope phase(SpanKind::phase, "optimizer");
    adam.step();
    adam.zero_grad();
  };
  for (int64_t i = 0; i < 3; ++i) step(i);
  all.barrier().wait();
  std::optional<ProfilerScope> recording;
  if (world.rank() == 0) recording.emplace(profiler);
  all.barrier().wait();
  all.ledger().reset();
  all.ledger().keep_entries(true);
  step(3);
  if (world.rank() == 0) kept.entries = all.ledger().entries();
  all.barrier().wait();
  recording.reset();
  if (world.rank() != 0) return;
  std::vector<std::string> units;
  for (const auto& unit : sharding.units()) units.push_back(unit->name());
  kept.whole = whole_of(sharding);
  kept.picture = step_timeline(profiler, 0, units,
                               text("A step of ", strategy, " on ", o.ranks, " ranks, as rank 0 saw it"));
}

}  // namespace

void show_sharded_step(const ShardedStepOptions& o, std::ostream& out) {
  const Strategy strategy = dist::parse_strategy(o.strategy);
  require<ConfigError>(!dist::traits_of(strategy).replicates,
                       "sharded-step: one group of ranks alone is shown, not ", o.strategy);
  require<ConfigError>(o.ranks >= 2 && o.batch_size >= 1,
                       "sharded-step: expected at least 2 ranks and a batch of 1, got ", o.ranks, " and ",
                       o.batch_size);
  Profiler profiler;
  Kept kept;
  dist::launch([&](dist::World& world) { train(o, strategy, world, profiler, kept); },
               {.virtual_ranks = o.ranks});
  print_calls(kept.entries, out);
  print_sums(strategy, o.ranks, kept.whole, kept.entries, out);
  if (o.svg.empty()) return;
  std::ofstream file(o.svg);
  file << kept.picture;
  require<ConfigError>(static_cast<bool>(file.flush()), "sharded-step: cannot write '", o.svg, "'");
  out << "The picture: " << o.svg << "\n";
}

}  // namespace tessera::tools
