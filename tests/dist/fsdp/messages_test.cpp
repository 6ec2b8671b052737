// The messages of units: their sizes against the limits, the calls that they are, and the bits of results,
// which depend on neither.

#include "dist/fsdp/messages.h"

#include <algorithm>
#include <map>

#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/dist/fsdp/parity_matrix.h"

using namespace tessera;
using dist::CallKind;
using dist::MessageOptions;
using dist::Strategy;
using dist::Traffic;

namespace {

using Entries = std::vector<dist::LedgerEntry>;

/// Messages of one element are for small models.
std::vector<MessageOptions> choices(const test::ParityCase& c) {
  const int64_t smallest = c.alignment == 1 ? 1 : 3;
  return {{.gather_elements = smallest, .reduce_elements = smallest},
          {.gather_elements = 7, .reduce_elements = 5, .prefetch_elements = 9},
          {.gather_elements = 33, .reduce_elements = 50, .prefetch_elements = 0},
          {.prefetch_elements = 21},
          {.reduce_scatter = false},
          {.all_gather = false},
          {.overlap = false},
          {.gather_elements = 13,
           .reduce_elements = 11,
           .prefetch_elements = 5,
           .reduce_scatter = false,
           .all_gather = false,
           .overlap = false}};
}

std::string to_string(const MessageOptions& m) {
  std::string s;
  const auto limit = [&](const char* name, int64_t value) {
    if (value != MessageOptions::unlimited) s += text(" ", name, " ", value);
  };
  limit("gather", m.gather_elements);
  limit("reduce", m.reduce_elements);
  limit("prefetch", m.prefetch_elements);
  if (!m.reduce_scatter) s += " all_reduce";
  if (!m.all_gather) s += " broadcasts";
  if (!m.overlap) s += " alone";
  return s;
}

const test::ParityCase& parity_case(const std::string& name) {
  const auto& all = test::parity_cases();
  return *std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.name == name; });
}

/// What is wrong with the calls of a run under `m`.
std::vector<std::string> check_calls(const Entries& entries, const MessageOptions& m, Strategy strategy,
                                     int64_t parameter_bytes) {
  std::vector<std::string> problems;
  for (const dist::LedgerEntry& entry : entries) {
    const bool gathers = entry.traffic == Traffic::parameters, reduces = entry.traffic == Traffic::gradients;
    const int64_t elements = entry.bytes / (gathers ? parameter_bytes : 4);
    if ((gathers && elements > m.gather_elements) || (reduces && elements > m.reduce_elements))
      problems.push_back(text("a message of ", name_of(entry.kind), " has ", elements, " elements"));
    if (gathers && !m.all_gather && entry.kind != CallKind::broadcast)
      problems.push_back(text("parameters by ", name_of(entry.kind)));
    if (reduces && !m.reduce_scatter && entry.kind == CallKind::reduce_scatter)
      problems.push_back("gradients by reduce_scatter");
  }
  const auto has = [&](Traffic traffic) {
    return std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.traffic == traffic; });
  };
  if (!has(Traffic::gradients)) problems.push_back("no gradients were sent");
  if (dist::traits_of(strategy).shards_optimizer != has(Traffic::parameters))
    problems.push_back("parameters were sent, or not");
  return problems;
}

/// Every choice under every strategy that suits a mesh of the world, against the bits of the run without
/// limits.
std::vector<std::string> check_parity(dist::World& world, std::optional<DType> compute,
                                      std::span<const char* const> cases) {
  std::vector<std::string> problems;
  dist::Ledger& ledger = world.communicator().ledger();
  for (const dist::Mesh& mesh : test::meshes(world))
    for (const char* name : cases) {
      const test::ParityCase& c = parity_case(name);
      test::ParitySetting setting{.compute = compute, .steps = 3};
      const test::ParityOutcome reference = run_sharded(c, setting, mesh);
      for (const Strategy strategy : dist::strategies)
        for (const MessageOptions& messages : choices(c)) {
          if (!dist::traits_of(strategy).replicates && strategy != Strategy::no_shard &&
              mesh.size("replica") > 1)
            continue;
          setting.strategy = strategy;
          setting.messages = messages;
          setting.forward_prefetch = messages.prefetch_elements != MessageOptions::unlimited;
          ledger.reset();
          ledger.keep_entries(true);
          std::vector<std::string> found = bit_differences(run_sharded(c, setting, mesh), reference);
          ledger.keep_entries(false);
          for (const std::string& problem :
               check_calls(ledger.entries(), messages, strategy, compute == bf16 ? 2 : 4))
            found.push_back(problem);
          for (const std::string& problem : found)
            problems.push_back(text(c.name, ", ", strategy, " on ", mesh.size("replica"), "x",
                                    mesh.size("shard"), ",", to_string(messages), ": ", problem));
        }
    }
  return problems;
}

constexpr models::GptOptions gpt_options{
    .vocabulary = 11, .block_size = 4, .layers = 4, .heads = 2, .width = 8};

/// A sharded GPT with blocks as units, and a batch for it.
struct Run {
  models::Gpt gpt{gpt_options};
  dist::Sharding* sharding = nullptr;
  Tensor ids = Tensor::from<int64_t>({1, 4, 9, 0, 10, 3, 3, 7}, {2, 4});

  Run(dist::World& world, Strategy strategy, const MessageOptions& messages) {
    const auto count = [this](const nn::Module& block, bool begins) {
      if (on_call) on_call(block.full_name(), begins);
    };
    sharding = &dist::shard(gpt, {.mesh = dist::Mesh(world),
                                  .strategy = strategy,
                                  .units = dist::every<models::Block>(),
                                  .gathers_in_flight = 4,
                                  .messages = messages,
                                  .bucket_bytes = 1});
    nn::materialize(gpt, cpu(), 1);
    // After the hooks of sharding, so that a unit is in use when they are called.
    gpt.for_each([&](nn::Module& module) {
      if (!dynamic_cast<models::Block*>(&module)) return;
      module.register_forward_pre_hook([=](nn::Module& m, const nn::CallVariables&) { count(m, true); });
      module.register_full_backward_pre_hook([=](nn::Module& m, std::vector<Variable>&) { count(m, false); });
    });
  }
  void step() {
    optim::AdamW adam(gpt.parameters());
    gpt.loss(ids, ids).backward();
    adam.step();
    adam.zero_grad();
  }

  std::function<void(const std::string& unit, bool is_forward)> on_call;
};

}  // namespace

TEST_CASE("messages: limits and kinds of calls change no bit, in f32") {
  constexpr const char* cases[] = {"plain", "no_sync and clipping", "uneven, no_sync", "frozen"};
  for (const int ranks : {2, 3, 4})
    test::require_no_problems(ranks, [&](dist::World& world) { return check_parity(world, {}, cases); });
}

TEST_CASE("messages: limits and kinds of calls change no bit, in bf16") {
  constexpr const char* cases[] = {"uneven", "partial, accumulation", "nested"};
  for (const int ranks : {2, 3, 4})
    test::require_no_problems(ranks, [&](dist::World& world) { return check_parity(world, bf16, cases); });
}

TEST_CASE("messages: one rank trains under every choice with the bits of none") {
  test::require_no_problems(1, [](dist::World& world) {
    std::vector<std::string> problems;
    const test::ParityCase& c = parity_case("plain");
    const test::ParityOutcome reference = run_sharded(c, {.steps = 3}, dist::Mesh(world));
    for (const Strategy strategy : dist::strategies)
      for (const MessageOptions& messages : choices(c))
        for (const std::string& problem : bit_differences(
                 run_sharded(c, {.strategy = strategy, .steps = 3, .messages = messages}, dist::Mesh(world)),
                 reference))
          problems.push_back(text(strategy, ",", to_string(messages), ": ", problem));
    return problems;
  });
}

TEST_CASE("messages: a limit is filled, and the last message of a unit has the rest") {
  test::require_no_problems(3, [](dist::World& world) {
    std::vector<std::string> problems;
    Run run(world, Strategy::full_shard, {.gather_elements = 100, .reduce_elements = 400});
    dist::Ledger& ledger = world.communicator().ledger();
    ledger.reset();
    ledger.keep_entries(true);
    run.step();
    { const dist::SummonFullParams full(*run.sharding); }
    // 16 + 12 * 64 elements of a block without biases: padded to 3 shards of 272. A part of 100 / 3 = 33 has
    // 99 in all, of 400 / 3 = 133 has 399.
    std::map<int64_t, int64_t> gathers, reductions;
    for (const dist::LedgerEntry& entry : ledger.entries()) {
      if (entry.unit != "blocks.1") continue;
      if (entry.kind == CallKind::all_gather) ++gathers[entry.bytes / 4];
      if (entry.kind == CallKind::reduce_scatter) ++reductions[entry.bytes / 4];
    }
    // In forward, in backward and to show all values: 8 messages of 99 and one of 3 * (272 - 8 * 33) = 24.
    if (gathers != std::map<int64_t, int64_t>{{99, 24}, {24, 3}}) problems.push_back("messages of gathers");
    if (reductions != std::map<int64_t, int64_t>{{399, 2}, {18, 1}})
      problems.push_back("messages of reductions");
    return problems;
  });
}

TEST_CASE("messages: elements gathered ahead of their use never exceed the limit, and fill it") {
  constexpr int64_t unit = 2 * 400;  // 16 + 12 * 64, padded to 2 shards of a multiple of 16
  struct Case {
    int64_t limit, gather_limit, most;
  };
  for (const Case& c :
       {Case{0, MessageOptions::unlimited, 0}, Case{1, MessageOptions::unlimited, 0}, Case{41, 1000, 40},
        Case{41, 6, 40}, Case{41, 1, 41}, Case{unit, 64, unit}, Case{unit + 100, 64, unit + 100},
        Case{MessageOptions::unlimited, MessageOptions::unlimited, 3 * unit}})
    test::require_no_problems(2, [&](dist::World& world) {
      std::vector<std::string> problems;
      Run run(world, Strategy::full_shard, {.gather_elements = c.gather_limit, .prefetch_elements = c.limit});
      std::map<std::string, int64_t> ahead;  // elements by unit, gathered since its last use
      int64_t most = 0;
      dist::Ledger& ledger = world.communicator().ledger();
      ledger.keep_entries(true);
      run.on_call = [&](const std::string& called, bool) {
        for (const dist::LedgerEntry& entry : ledger.entries())
          if (entry.traffic == Traffic::parameters && entry.unit != "root")
            ahead[entry.unit] += entry.bytes / 4;
        ledger.reset();
        ahead[called] = 0;
        int64_t sum = 0;
        for (const auto& [name, elements] : ahead) sum += elements;
        most = std::max(most, sum);
      };
      run.step();
      run.step();
      if (most != c.most)
        problems.push_back(text("limit ", c.limit, ", messages of ", c.gather_limit, ": ", most,
                                " elements ahead, expected ", c.most));
      return problems;
    });
}
