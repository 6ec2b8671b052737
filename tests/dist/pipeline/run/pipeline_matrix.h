#pragma once

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
/// micro-batches by their bound; and against itself in a second run, by bits. Returns what differs.
std::vector<std::string> check_pipeline(dist::World& world, const dist::PipelineOptions& options);

/// `check_pipeline` for every kind of schedule.
std::vector<std::string> check_all_schedules(dist::World& world);

}  // namespace tessera::test
