#pragma once

#include <string>
#include <vector>

namespace tessera::gptlite {

/// The arguments with the spellings of other programs replaced by ours: `--pipeline_num_stages` and
/// `--pipeline-parallel-size` by `--pipeline-stages`, `--activation_checkpoint_interval` by the same with
/// dashes;
/// `--pipeline_spec_layers` is left out, since a rank always makes its own layers alone.
std::vector<std::string> with_own_spellings(int argc, const char* const* argv);

}  // namespace tessera::gptlite
