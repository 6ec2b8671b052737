#pragma once

#include <iosfwd>
#include <string>

/// The subcommands of `tessera checkpoint`. `path` is a checkpoint's folder, a run's folder (its latest
/// checkpoint), or a run's file `latest` or `best`. Each prints to `out`, and throws CheckpointError when the
/// checkpoint is invalid.
namespace tessera::tools {

/// Prints the training state, every file with its hash, and every tensor with its shape, dtype and bytes.
void inspect_checkpoint(const std::string& path, std::ostream& out);
/// Reads all files. Prints a line for each, with the reason for a damaged one; throws if any is damaged.
void verify_checkpoint(const std::string& path, std::ostream& out);
/// Writes the model's tensors into one safetensors file. Throws ConfigError where `output` exists and is not
/// such a file of this model, unless `replaces` is true.
void consolidate_checkpoint(const std::string& path, const std::string& output, bool replaces,
                            std::ostream& out);

}  // namespace tessera::tools
