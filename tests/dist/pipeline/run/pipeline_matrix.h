#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dist/launch/world.h"
#include "dist/pipeline/run/pipeline.h"

/// A small language model in f64, trained in stages and on one device: tied embeddings, dropout, padding
/// among the targets, micro-batches of several shapes.
namespace tessera::test {

/// A step of `count` micro-batches; the same on every rank.
std::vector<dist::MicroBatch> language_batches(int count);

/// Trains a pipeline over all ranks of `world` with steps of 1, 2, 3, 4 and 8 micro-batches and holds it
/// against one device: losses, gradients and validation losses to 1e-12, initial values by their bits, live
/// micro-batches by their bound; and by bits against itself in a second run with delays at random places, in
/// modules and messages. Returns what differs.
/// With a mesh of more dimensions the stages are sharded by `strategy`, and ranks with the same stages train
/// micro-batches of their own.
std::vector<std::string> check_pipeline(dist::World& world, const dist::PipelineOptions& options,
                                        const std::optional<dist::Strategy>& strategy = {});

/// `check_pipeline` of two stages for every strategy, on 4 ranks, or on 8 with replicas too.
std::vector<std::string> check_sharded_stages(dist::World& world);

/// `check_pipeline` for every kind of schedule.
std::vector<std::string> check_all_schedules(dist::World& world);

}  // namespace tessera::test
