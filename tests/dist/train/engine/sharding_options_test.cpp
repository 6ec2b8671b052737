#include "dist/train/engine/sharding_options.h"

#include <doctest/doctest.h>

#include "tensor/error.h"
#include "tests/dist/fsdp/on_threads.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;

TEST_CASE("estimate_options: the estimate is of the sharding that the engine makes") {
  TrainingConfig config{.accumulation_steps = 3,
                        .precision = PrecisionMode::bf16,
                        .reduce_bucket_size = 1000,
                        .gather_bucket_size = 2000,
                        .prefetch_bucket_size = 0,
                        .overlap_communication = false,
                        .reduce_scatter = false,
                        .gather_partitions = false,
                        .backward_prefetch = dist::BackwardPrefetch::none,
                        .accumulate_communication = true};
  for (const dist::Strategy strategy : dist::strategies) {
    config.strategy = strategy;
    config.shard_group_size = dist::traits_of(strategy).replicates ? 2 : 0;
    test::require_no_problems(4, [&](dist::World& world) {
      const dist::ShardOptions made = sharding_options(config, world, {});
      const dist::EstimateOptions estimated = estimate_options(config, world.size());
      std::vector<std::string> problems;
      const auto expect = [&](bool is_right, const char* what) {
        if (!is_right) problems.push_back(text(strategy, ": ", what));
      };
      int64_t shards = 1, replicas = 1;
      for (const dist::MeshDimension& d : made.mesh.dimensions())
        (d.name == "shard" ? shards : replicas) = d.size;
      expect(estimated.strategy == made.strategy, "strategy");
      expect(estimated.shards == shards && estimated.replicas == replicas, "mesh");
      expect(estimated.compute == made.precision.compute, "dtype");
      expect(estimated.backward_prefetch == made.backward_prefetch, "backward_prefetch");
      expect(estimated.messages.gather_elements == made.messages.gather_elements, "gather_elements");
      expect(estimated.messages.reduce_elements == made.messages.reduce_elements, "reduce_elements");
      expect(estimated.messages.prefetch_elements == made.messages.prefetch_elements, "prefetch_elements");
      expect(estimated.messages.reduce_scatter == made.messages.reduce_scatter, "reduce_scatter");
      expect(estimated.messages.all_gather == made.messages.all_gather, "all_gather");
      expect(estimated.messages.overlap == made.messages.overlap, "overlap");
      expect(estimated.micro_batches == 3 && estimated.accumulate_communication, "micro-batches");
      return problems;
    });
  }
  config.shard_group_size = 3;
  CHECK(message_of<ConfigError>([&] { estimate_options(config, 4); }) ==
        "shard_group_size 3: expected a divisor of the 4 ranks");
}
