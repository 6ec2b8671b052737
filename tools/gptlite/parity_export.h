#pragma once

#include <cstdint>
#include <string>

#include "data/batch.h"
#include "models/gpt.h"

namespace tessera::gptlite {

/// Writes what another program needs to repeat a run: `model.safetensors` with the current weights, and
/// `batches.safetensors` with `x` and `y`, i64 (steps, B, T), every batch in order. Throws ConfigError when
/// the folder cannot be made, CheckpointError when a file cannot be written.
void export_for_parity(const std::string& folder, const models::Gpt& gpt, const data::BatchSource& batches,
                       int64_t steps);

}  // namespace tessera::gptlite
