#pragma once  // not in tessera.h

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/train/config/json_document.h"
#include "dist/train/config/training_fields.h"
#include "dist/train/deepspeed/reports.h"

/// Runs configured by the files of DeepSpeed. `keys.h` has the table of all keys.
namespace tessera::training::deepspeed {

/// An optimizer or a schedule by name.
struct Named {
  std::string type;                                      ///< "AdamW"
  JsonNode node;                                         ///< the block, for messages
  std::vector<std::pair<std::string, JsonNode>> params;  ///< its options, in the order of the text
};

/// The optimizer or the schedule of a block. Throws ConfigError, with its place, for one without a type.
Named named(const JsonNode& block);

/// What a file of DeepSpeed says.
struct Configuration {
  /// Holds the text to which all nodes point.
  std::shared_ptr<const JsonDocument> document;
  /// With batch sizes that fulfil the batch equation.
  Resolved<TrainingConfig> training;
  /// Where the file has them.
  /// @{
  std::optional<Named> optimizer, schedule;
  /// @}
  /// What the file asks a run to print and to write (`steps_per_print`, `flops_profiler`, ...).
  Reports reports;
  /// Top-level keys that DeepSpeed does not have, kept for the program.
  std::vector<std::pair<std::string, JsonNode>> user_fields;
  /// One line for each key of `user_fields`, with the nearest key that there is.
  std::vector<std::string> warnings;
};

/// Reads a configuration for a number of ranks. `program` has the values of the program's own code: they hold
/// for keys that the file lacks or that are "auto". Throws ConfigError, naming file, line, key, what is
/// expected and what came: for a value of another type or out of range, for an unknown key inside a block
/// (with the nearest one), for what is refused (with the reason), for batch sizes that contradict each other,
/// and where fp16 and bf16 are both enabled.
Configuration read(JsonDocument document, Resolved<TrainingConfig> program, int64_t ranks);

/// The file's JSON with a value in place of every "auto", and all three batch sizes.
std::string resolved_json(const Configuration& configuration);

}  // namespace tessera::training::deepspeed
