#pragma once

#include <string>

#include "nn/module.h"

/// A module in one safetensors file, which other programs can read and write. dist/checkpoint saves training
/// runs, with their optimizers and their ranks.
namespace tessera::nn {

/// Writes `module.state_dict()`: parameters (in mixed precision the f32 masters) and persistent buffers; tied
/// weights once, under their first name. An existing file is replaced when the new one is complete. Throws
/// DeviceError for a module on meta, ConfigError for a sharded one whose parameters are not gathered,
/// CheckpointError when the file cannot be written.
/// @{
void save(const Module& module, const std::string& path);
void save(const StateDict& state, const std::string& path);
/// @}

/// Loads a file of `save` or another program by `Module::load_state_dict`: all of it or nothing. Without
/// `strict`, tensors that the module does not have are not read, and the names that were missing and
/// unexpected are returned. Throws as that function does, and CheckpointError when the file cannot be read.
LoadResult load(Module& module, const std::string& path, bool strict = true);

/// Every tensor of a safetensors file, in the order of the file. Throws CheckpointError.
/// `load(path)` is the same, by PyTorch's name: `model.load_state_dict(load(path))`.
/// @{
StateDict read_state_dict(const std::string& path);
inline StateDict load(const std::string& path) {
  return read_state_dict(path);
}
/// @}

}  // namespace tessera::nn

namespace tessera {
using nn::load;
using nn::save;
}  // namespace tessera
