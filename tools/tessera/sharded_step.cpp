#include "tools/tessera/sharded_step.h"

#include <cstdlib>
#include <fstream>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "dist/fsdp/shard.h"
#include "dist/fsdp/unit.h"
#include "dist/launch/launch.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/number_text.h"
#include "tools/tessera/step_timeline.h"
#include "tools/tessera/text_table.h"

namespace tessera::tools {
namespace {

using dist::Strategy;

/// The variables of a strategy's formula, in bytes.
struct FormulaBytes {
  int64_t parameters = 0, root = 0, gradients = 0;
};

FormulaBytes formula_bytes(const dist::Sharding& sharding) {
  FormulaBytes totals;
  for (const auto& unit : sharding.units())
    for (const auto& flat : unit->flats()) {
      const int64_t bytes = 4 * flat->layout().numel();
      totals.parameters += bytes;
      if (unit == sharding.units().front()) totals.root += bytes;
      if (flat->is_trainable()) totals.gradients += bytes;
    }
  return totals;
}

/// A step's calls, except those that exchange scalars for control.
void print_calls(const std::vector<dist::LedgerEntry>& entries, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"call", "of", "for", "full bytes", "sent by rank 0"}};
  int64_t control = 0;
  for (const dist::LedgerEntry& entry : entries) {
    if (entry.traffic == dist::Traffic::control) {
      ++control;
      continue;
    }
    rows.push_back({name_of(entry.kind), name_of(entry.traffic), entry.unit, with_commas(entry.bytes),
                    with_commas(entry.bytes_sent)});
  }
  out << text_table(rows) << "Not listed: " << control << " control calls (which units backward reached).\n";
}

/// "2G - G0 + R".
std::string formula_of(const dist::TrafficFactors& factors) {
  const std::pair<int, const char*> terms[] = {
      {factors.gathered, "G"}, {factors.root, "G0"}, {factors.reduced, "R"}};
  std::string formula;
  for (const auto& [factor, name] : terms) {
    if (factor == 0) continue;
    if (!formula.empty()) formula += factor < 0 ? " - " : " + ";
    if (std::abs(factor) != 1) formula += std::to_string(std::abs(factor));
    formula += name;
  }
  return formula;
}

void print_totals(Strategy strategy, int ranks, const FormulaBytes& totals,
                  const std::vector<dist::LedgerEntry>& entries, std::ostream& out) {
  const auto [G, G0, R] = totals;
  const dist::TrafficFactors factors = dist::traffic_factors(dist::traits_of(strategy));
  const int64_t bytes = factors.gathered * G + factors.root * G0 + factors.reduced * R;
  int64_t sent = 0;
  for (const dist::LedgerEntry& entry : entries)
    if (entry.traffic != dist::Traffic::control) sent += entry.bytes_sent;
  out << "\nG  = " << with_commas(G) << " bytes of parameters\nG0 = " << with_commas(G0)
      << " of them the root's\nR  = " << with_commas(R) << " bytes of gradients\nThe formula: ("
      << formula_of(factors) << ") * " << ranks - 1 << "/" << ranks << " = "
      << with_commas(bytes / ranks * (ranks - 1)) << " bytes.\nThe ledger:  " << with_commas(sent)
      << " bytes.\n";
}

/// The last step on rank 0.
struct StepRecord {
  std::vector<dist::LedgerEntry> entries;
  FormulaBytes totals;
  std::string timeline;
};

void take_step(models::Gpt& gpt, optim::AdamW& adam, const Tensor& ids, int64_t number) {
  const SpanScope span(SpanKind::step, "step", number);
  Variable loss;
  {
    const SpanScope phase(SpanKind::phase, "forward");
    loss = gpt.loss(ids, ids);
  }
  loss.backward();
  const SpanScope phase(SpanKind::phase, "optimizer");
  adam.step();
  adam.zero_grad();
}

void train(const ShardedStepOptions& o, Strategy strategy, dist::World& world, Profiler& profiler,
           StepRecord& record) {
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
  for (int64_t i = 0; i < 3; ++i) take_step(gpt, adam, ids, i);
  all.barrier().wait();
  std::optional<ProfilerScope> recording;
  if (world.rank() == 0) recording.emplace(profiler);
  all.barrier().wait();
  all.ledger().reset();
  all.ledger().keep_entries(true);
  take_step(gpt, adam, ids, 3);
  if (world.rank() == 0) record.entries = all.ledger().entries();
  all.barrier().wait();
  recording.reset();
  if (world.rank() != 0) return;
  std::vector<std::string> units;
  for (const auto& unit : sharding.units()) units.push_back(unit->name());
  record.totals = formula_bytes(sharding);
  record.timeline = step_timeline(
      profiler, 0, units, text("A step of ", strategy, " on ", o.ranks, " ranks, recorded on rank 0"));
}

}  // namespace

void show_sharded_step(const ShardedStepOptions& o, std::ostream& out) {
  const Strategy strategy = dist::parse_strategy(o.strategy);
  require<ConfigError>(!dist::traits_of(strategy).replicates,
                       "sharded-step: expected a strategy with one group of ranks, got ", o.strategy);
  require<ConfigError>(o.ranks >= 2 && o.batch_size >= 1,
                       "sharded-step: expected at least 2 ranks and a batch of 1, got ", o.ranks, " and ",
                       o.batch_size);
  Profiler profiler;
  StepRecord record;
  dist::launch([&](dist::World& world) { train(o, strategy, world, profiler, record); },
               {.virtual_ranks = o.ranks});
  print_calls(record.entries, out);
  print_totals(strategy, o.ranks, record.totals, record.entries, out);
  if (o.svg.empty()) return;
  std::ofstream file(o.svg);
  file << record.timeline;
  require<ConfigError>(static_cast<bool>(file.flush()), "sharded-step: cannot write '", o.svg, "'");
  out << "The timeline: " << o.svg << "\n";
}

}  // namespace tessera::tools
