#pragma once

#include <iosfwd>
#include <string>

/// What `tessera checkpoint` does. Each takes a checkpoint's folder, a run's folder (its latest), or a run's
/// `latest` or `best` file; prints to `out`; and throws CheckpointError when the checkpoint is refused.
namespace tessera::tools {

/// Prints the training state, every file with its hash, and every tensor with its shape, dtype and bytes.
void inspect_checkpoint(const std::string& path, std::ostream& out);
/// Reads everything; prints a line for each file, and for each that is damaged the reason, then throws.
void verify_checkpoint(const std::string& path, std::ostream& out);
/// Writes the model's tensors into one safetensors file. Throws ConfigError where something is there that is
/// not such a file of this model, unless it `replaces` whatever is there.
void consolidate_checkpoint(const std::string& path, const std::string& output, bool replaces,
                            std::ostream& out);

}  // namespace tessera::tools
