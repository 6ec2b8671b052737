#include "dist/simulate/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "models/gpt.h"
#include "tensor/error.h"

using namespace tessera;
using dist::MachineRates;
using dist::SearchOptions;
using dist::SearchResult;
using dist::Strategy;

namespace {

constexpr int64_t T = 32;

/// Profiles of a small model, for any micro-batch size.
struct Models {
  std::vector<std::unique_ptr<models::Gpt>> gpts = {};
  dist::ProfileOf profile_of() {
    return [this](int64_t size) {
      models::Gpt& gpt = *gpts.emplace_back(std::make_unique<models::Gpt>(models::GptOptions{
          .vocabulary = 64, .block_size = T, .layers = 6, .heads = 2, .width = 64, .tie_weights = false}));
      const Tensor ids = Tensor::empty({size, T}, i64, meta());
      return std::make_shared<dist::ModelProfile>(gpt.to_layered_model(), nn::LayerValues{Variable(ids)},
                                                  std::vector<Tensor>{ids});
    };
  }
};

MachineRates machine(double link = 1e12) {
  return {.flops_per_second = 1e11, .memory_bytes_per_second = 1e11, .link = {link, 0}};
}

SearchOptions options(int64_t ranks, int64_t batch) {
  SearchOptions o{.ranks = ranks, .between_nodes = {1e12, 0}, .batch_size = batch, .common = {}};
  o.common.unit_kind = "Block";
  return o;
}

}  // namespace

TEST_CASE("search: what it returns are the fastest of all candidates that fit") {
  Models models;
  const SearchOptions o = options(8, 16);
  const SearchResult pruned = search_plans(models.profile_of(), o, machine(), 3);
  const SearchResult all = search_plans(models.profile_of(), o, machine(), 100000);
  REQUIRE(pruned.best.size() == 3);
  REQUIRE(all.best.size() == all.tried.size());
  CHECK(pruned.tried.size() == all.tried.size());
  for (size_t i = 0; i < 3; ++i) {
    CHECK(pruned.best[i].step.seconds == all.best[i].step.seconds);
    CHECK(describe_choices(pruned.best[i].options, pruned.best[i].micro_batch_size) ==
          describe_choices(all.best[i].options, all.best[i].micro_batch_size));
  }
  for (size_t i = 1; i < all.best.size(); ++i)
    CHECK(all.best[i - 1].step.seconds <= all.best[i].step.seconds);
  // A bound is below the time.
  for (size_t i = 0; i < all.tried.size(); ++i) CHECK(pruned.tried[i].seconds <= all.tried[i].seconds);
}

TEST_CASE("search: every candidate is a mesh of all ranks and of the whole batch") {
  Models models;
  SearchOptions o = options(8, 16);
  o.ranks_per_node = 2;
  const SearchResult result = search_plans(models.profile_of(), o, machine(), 1);
  bool has_hybrid = false;
  for (const dist::TriedPlan& tried : result.tried) {
    CHECK(tried.options.ranks() == 8);
    CHECK(tried.micro_batch_size * tried.options.micro_batches * tried.options.shards *
              tried.options.replicas ==
          16);
    CHECK(tried.options.stages <= 8);
    if (traits_of(tried.options.strategy).replicates) {
      CHECK(tried.options.shards == 2);
      has_hybrid = true;
    }
  }
  CHECK(has_hybrid);
}

TEST_CASE("search: less memory gives plans that need less, down to none") {
  Models models;
  SearchOptions o = options(4, 16);
  o.plans_activations = false;
  o.checkpointing = {{}, {.interval = 1}};
  const SearchResult free = search_plans(models.profile_of(), o, machine(), 1);
  REQUIRE(free.best.size() == 1);
  int64_t limit = free.best[0].step.peak_bytes();
  double seconds = free.best[0].step.seconds;
  int found = 0;
  while (true) {
    o.memory_bytes = limit - 1;
    const SearchResult less = search_plans(models.profile_of(), o, machine(), 1);
    if (less.best.empty()) break;
    ++found;
    CHECK(less.best[0].step.peak_bytes() < limit);
    CHECK(less.best[0].step.seconds >= seconds);
    limit = less.best[0].step.peak_bytes();
    seconds = less.best[0].step.seconds;
  }
  CHECK(found > 1);
}

TEST_CASE("search: schedules with chunks have every number of them that the layers allow") {
  Models models;
  SearchOptions o = options(2, 8);
  const auto chunks = [&] {
    std::set<std::pair<std::string, int>> found;
    for (const dist::TriedPlan& tried : search_plans(models.profile_of(), o, machine(), 1).tried)
      if (tried.options.stages == 2)
        found.emplace(std::string(name_of(tried.options.schedule)), tried.options.chunks);
    return found;
  };
  // 9 layers: embedding, 6 blocks, norm and head.
  CHECK(chunks() == std::set<std::pair<std::string, int>>{{"gpipe", 0},
                                                          {"1f1b", 0},
                                                          {"interleaved", 2},
                                                          {"interleaved", 3},
                                                          {"interleaved", 4},
                                                          {"zb-h1", 0},
                                                          {"zb-v", 0},
                                                          {"breadth-first", 2},
                                                          {"breadth-first", 3},
                                                          {"breadth-first", 4}});
  o.most_chunks = 2;
  CHECK(!chunks().contains({"interleaved", 3}));
  o.most_chunks = 1;
  CHECK(!chunks().contains({"zb-v", 0}));
  o.most_chunks = 0;
  CHECK_THROWS_AS(chunks(), ConfigError);
}

TEST_CASE("search: what nearly fits is planned block by block, and takes less time than all again") {
  Models models;
  SearchOptions o = options(2, 16);
  o.checkpointing = {{}, {.interval = 1}};
  o.plans_activations = false;
  o.choices = {.keeps = {{"self_attention"}},
               .may = [](const nn::LayerSpec& layer) { return layer.kind == "Block"; }};
  const SearchResult free = search_plans(models.profile_of(), o, machine(), 1);
  o.memory_bytes = free.best[0].step.peak_bytes() * 9 / 10;
  o.micro_batch_sizes = {free.best[0].micro_batch_size};
  const SearchResult whole = search_plans(models.profile_of(), o, machine(), 1);
  o.plans_activations = true;
  const SearchResult planned = search_plans(models.profile_of(), o, machine(), 1);
  REQUIRE(whole.best.size() == 1);
  REQUIRE(planned.best.size() == 1);
  const dist::FoundPlan& best = planned.best[0];
  CHECK(best.options.activation_budget > 0);
  CHECK(best.step.peak_bytes() <= o.memory_bytes);
  CHECK(best.step.seconds < whole.best[0].step.seconds);
  CHECK(best.step.seconds > free.best[0].step.seconds);
  CHECK(describe_choices(best.options, best.micro_batch_size).find("checkpointing for ") !=
        std::string::npos);
  const auto again = std::count_if(best.options.kept.begin(), best.options.kept.end(),
                                   [](const nn::KeptOfLayer& kept) { return kept.is_checkpointed; });
  CHECK(again > 0);
  CHECK(again < 6);
}

TEST_CASE("search: slow links between nodes are avoided") {
  Models models;
  SearchOptions o = options(8, 64);
  o.ranks_per_node = 4;
  o.between_nodes = {1e6, 0};
  const SearchResult result = search_plans(models.profile_of(), o, machine(), 1);
  REQUIRE(result.best.size() == 1);
  // Activations between two stages are fewer bytes than gradients.
  CHECK(result.best[0].options.stages > 1);
  o.between_nodes = {1e12, 0};
  CHECK(search_plans(models.profile_of(), o, machine(), 1).best[0].options.stages == 1);
}

TEST_CASE("search: reasons name the nearest alternatives") {
  Models models;
  SearchOptions o = options(4, 16);
  o.plans_activations = false;
  o.checkpointing = {{}, {.interval = 1}};
  const SearchResult free = search_plans(models.profile_of(), o, machine(), 1);
  const std::vector<std::string> lines = reasons(free.best[0], free);
  CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("checkpointing every layer: at least ") && line.ends_with(" % slower");
  }));
  // On one rank, with one micro-batch size, checkpointing is the only choice.
  o = options(1, 4);
  o.plans_activations = false;
  o.checkpointing = {{}, {.interval = 1}};
  o.micro_batch_sizes = {4};
  const SearchResult kept = search_plans(models.profile_of(), o, machine(), 1);
  o.memory_bytes = kept.best[0].step.peak_bytes() - 1;
  const SearchResult less = search_plans(models.profile_of(), o, machine(), 1);
  const std::vector<std::string> reason = reasons(less.best[0], less);
  REQUIRE(reason.size() == 1);
  CHECK(reason[0].starts_with("no checkpointing: does not fit, "));
}

TEST_CASE("search: bad input is refused") {
  Models models;
  CHECK_THROWS_WITH_AS(search_plans(models.profile_of(), options(0, 1), machine()),
                       "search: expected at least 1 rank and a batch of 1, got 0 and 1", ConfigError);
  SearchOptions o = options(6, 12);
  o.ranks_per_node = 4;
  CHECK_THROWS_WITH_AS(search_plans(models.profile_of(), o, machine()),
                       "search: expected ranks that are a multiple of those of a node, got 6 and 4",
                       ConfigError);
  CHECK_THROWS_WITH_AS(search_plans(models.profile_of(), options(16, 1), machine()),
                       "search: no micro-batch size divides a batch of 1 over 16 ranks", ConfigError);
  CHECK_THROWS_AS(search_plans(models.profile_of(), options(int64_t{1} << 32, 8), machine()), ConfigError);
  CHECK_THROWS_AS(search_plans(models.profile_of(), options(1, INT64_MAX), machine()), ConfigError);
  CHECK_THROWS_WITH_AS(search_plans(models.profile_of(), options(2, 2), machine(), 0),
                       "search: expected at least 1 plan to find, got 0", ConfigError);
  o = options(2, 2);
  o.memory_bytes = -1;
  CHECK_THROWS_AS(search_plans(models.profile_of(), o, machine()), ConfigError);
  o = options(2, 2);
  o.checkpointing.clear();
  CHECK_THROWS_AS(search_plans(models.profile_of(), o, machine()), ConfigError);
  MachineRates fast = machine();
  fast.speeds = {2, 2};
  CHECK_THROWS_WITH_AS(search_plans(models.profile_of(), options(2, 2), fast),
                       "search: expected ranks of one speed, got speeds of 2 ranks", ConfigError);
}

TEST_CASE("search: a group that crosses two nodes has the link between them") {
  Models models;
  SearchOptions o = options(24, 24);
  o.ranks_per_node = 8;
  o.between_nodes = {1e3, 0};  // next to nothing
  // Columns of 6 ranks: the second one is on two nodes.
  const SearchResult result = search_plans(models.profile_of(), o, machine(), 100000);
  for (const dist::FoundPlan& plan : result.best)
    if (plan.options.stages == 4 && plan.options.strategy == Strategy::full_shard)
      CHECK(plan.step.exposed_communication > 1);
}
