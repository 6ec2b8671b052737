#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/dist/fsdp/parity_run.h"

/// The matrix of strategies, dtypes, models and training loops, for every transport.
namespace tessera::test {

const std::vector<ParityCase>& parity_cases();

/// Every strategy has the bits of no_shard on the same mesh: losses, norms, parameters and optimizer state
/// after ten steps, computed in `compute`. Flat strategies on a flat mesh, hybrid ones on every mesh of
/// replicas and shards. All ranks call it; returns the problems that this rank found.
std::vector<std::string> check_bits(dist::World& world, std::optional<DType> compute);

/// Every strategy follows the run of one device on the global batch, in losses, parameters and optimizer
/// state: in f64 to 1e-12, in f32 to 2e-5, in bf16 (with f32 masters) to 2e-2.
std::vector<std::string> check_undistributed(dist::World& world, DType dtype);

/// Trains `rounds` times, over all strategies and models in turn, with random delays on every rank: at the
/// hooks of modules and parameters, and before, in and after each call. All results have the bits of no_shard
/// without delays.
std::vector<std::string> check_delays(dist::World& world, int rounds);

/// All meshes of replicas and shards of a world, the flat one first.
std::vector<dist::Mesh> meshes(dist::World& world);

}  // namespace tessera::test
