#pragma once  // internal

#include <span>

#include "dist/comm/interface/communicator.h"
#include "dist/train/metrics/metric.h"

namespace tessera::training {

/// Throws dist::MismatchError on every rank, with the same message, unless all ranks have metrics of the same
/// names and descriptions in the same order. One call of 16 bytes per rank where they do; the texts are
/// exchanged only where they differ, for the message.
void require_same_metrics(std::span<Metric* const> metrics, dist::Communicator& ranks);

}  // namespace tessera::training
