#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/train/config/origin.h"
#include "dist/train/deepspeed/reports.h"

namespace tessera::gptlite {

/// A value that a configuration of DeepSpeed gives an option of gptlite.
struct ConfigValue {
  std::string name;         ///< of the option: "batch_size"
  std::string value;        ///< as a flag has it
  training::Origin origin;  ///< the file and the line
};

/// What a configuration of DeepSpeed says about a run of gptlite.
struct ConfigFile {
  std::vector<ConfigValue> values;
  training::deepspeed::Reports reports;  ///< what the run prints and writes
  std::vector<std::string> warnings;     ///< of keys that DeepSpeed does not have
};

/// What the batch equation of a configuration needs besides it.
struct ConfigContext {
  int64_t ranks = 1;
  int64_t batch_size = 0;        ///< the run's, where the file has none; 0: not known yet, any
  int64_t given_batch_size = 0;  ///< of --batch-size, which wins; 0: not given
  int64_t steps = 1;             ///< the run's: the "auto" of a schedule
};

/// Reads the file of `--config` by `training::deepspeed::read`. Throws ConfigError and NotBuiltError as that
/// does, and, with the place, for an optimizer other than AdamW and for an option of it that gptlite lacks.
ConfigFile read_config_file(const std::string& path, const ConfigContext& context);

}  // namespace tessera::gptlite
