#pragma once

#include <string>
#include <vector>

#include "tools/gptlite/options.h"
#include "tools/gptlite/saved_run.h"

namespace tessera::gptlite {

/// A text to continue.
struct Prompt {
  std::string text;  ///< as it was given; empty where nothing was
  std::vector<int64_t> ids;
};

/// The prompts of `gptlite sample`, each `batch` times in turn: that of `--prompt`, those of the lines of
/// `--prompts`, or a line break where neither was given. Throws ConfigError, naming the flag, for a file that
/// cannot be read, an empty prompt, or characters or ids that are not the model's.
std::vector<Prompt> read_prompts(const training::Resolved<SampleOptions>& given, const SavedRun& saved);

/// The ids of `--stop`. Throws ConfigError as `read_prompts`.
std::vector<int64_t> stop_ids(const std::string& stop, const SavedRun& saved);

}  // namespace tessera::gptlite
