#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/dist/fsdp/parity_run.h"

/// The matrix of strategies, numbers, models and ways to train: the same under every transport.
namespace tessera::test {

const std::vector<ParityCase>& parity_cases();

/// Every strategy has the bits of no_shard on the same mesh: losses, norms, parameters and optimizer state
/// after ten steps, computed in `compute`. Flat strategies on a flat mesh, hybrid ones on every mesh of
/// replicas and shards. Called by all ranks; answers with what this rank found wrong.
std::vector<std::string> check_bits(dist::World& world, std::optional<DType> compute);

/// Every strategy follows the run of one device on the whole batch, in losses, parameters and optimizer
/// state: in f64 to 1e-12, in f32 to 2e-5, in bf16 (with f32 masters) to 2e-2.
std::vector<std::string> check_undistributed(dist::World& world, DType dtype);

/// Trains `rounds` times, over all strategies and models in turn, while every rank sleeps at random moments:
/// at the hooks of modules and parameters, before, in and after each communication. Everything has the bits
/// of no_shard without a delay.
std::vector<std::string> check_delays(dist::World& world, int rounds);

/// All ways to cut a world into replicas and shards, flat first.
std::vector<dist::Mesh> meshes(dist::World& world);

}  // namespace tessera::test
