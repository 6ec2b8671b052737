#pragma once  // not in tessera.h

#include <string>
#include <vector>

#include "dist/fsdp/estimate.h"
#include "dist/train/plan/peak_memory.h"

namespace tessera::training {

/// The plan `alone` of one rank's share of a step, with model state and communication replaced by the
/// estimate: shards, and what is gathered and reduced.
PeakMemory with_estimate(PeakMemory alone, const dist::Estimate& estimate);

/// A line for each unit, with its number of parameters and of elements as it is sharded; consecutive units of
/// one size share a line.
std::string describe_units(const std::vector<dist::UnitEstimate>& units);
/// A line for each category: the model state of the first rank, and the most in addition during a step.
std::string describe_bytes(const dist::Estimate& estimate);
/// What each rank sends in a step: to gather parameters, and to reduce gradients.
std::string describe_traffic(const dist::StepTraffic& traffic);

}  // namespace tessera::training
