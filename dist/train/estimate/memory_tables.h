#pragma once  // not in tessera.h

#include <span>
#include <string>
#include <vector>

#include "dist/fsdp/estimate.h"
#include "dist/train/estimate/zero_memory.h"

/// Further tables of memory: of Accelerate, of the stages of a pipeline, and of this library's own sharding.
namespace tessera::training {

/// One row of Accelerate's `estimate-memory`, in bytes.
struct DtypeMemory {
  std::string dtype;    ///< "float32", "float16", "bfloat16", "int8" or "int4"
  double largest = 0;   ///< the largest layer
  double total = 0;     ///< parameters and buffers
  double training = 0;  ///< with Adam; 0: not trained in that type
};

/// For a model of f32 with these sizes. Training with Adam in float32: parameters, gradients and two means, 4
/// times the f32 total; in float16 or bfloat16 the most that is held at once besides the parameters, by
/// Accelerate's count 2 times the f32 total. Throws ConfigError for a negative size or an unknown dtype.
DtypeMemory dtype_memory(int64_t largest_bytes, int64_t total_bytes, const std::string& dtype);

/// The table "dtype | Largest Layer | Total Size | Training using Adam", a row for each dtype; "N/A" for
/// training in integers. Throws ConfigError as `dtype_memory`.
std::string accelerate_memory_table(const std::string& model_name, int64_t largest_bytes, int64_t total_bytes,
                                    std::span<const std::string> dtypes);
/// "84.95 MB": Accelerate's, of at most two decimals.
std::string accelerate_bytes_text(double bytes);

/// A stage of a pipeline, for its estimates.
struct StageSize {
  std::string name;           ///< "stage 0, layers [0, 4)"
  int64_t parameters = 0;     ///< of the stage
  int64_t largest_layer = 0;  ///< as ModelSize::largest_layer, within the stage
};

/// A row per stage: parameters; base, 4 bytes for each; and GB per GPU by ZeRO-2 and ZeRO-3, each with and
/// without offload. Throws ConfigError as the estimates.
std::string stage_memory_table(std::span<const StageSize> stages, const ZeroSetup& setup);

/// This library's own numbers beside them, by dist/fsdp/estimate.h: a row per strategy with the bytes that a
/// rank holds between steps, by purpose, those that it gathers or reduces for a while, and those that it
/// sends in a step. `options.strategy` is not read. Throws ConfigError as dist::estimate.
std::string sharding_memory_table(nn::Module& module, const dist::UnitPolicy& units,
                                  const dist::EstimateOptions& options, int decimals = 3);

}  // namespace tessera::training
