#pragma once

#include <string>

#include "nn/module.h"

/// A module in one safetensors file, which other programs read and write too. Training runs, with their
/// optimizers and their ranks, are saved by dist/checkpoint.
namespace tessera::nn {

/// Writes `module.state_dict()`: parameters (in mixed precision the f32 masters) and persistent buffers; tied
/// weights once, under their first name. The file appears when it is whole, in the place of one that was
/// there. Throws DeviceError for a module on meta, ConfigError for a sharded one whose parameters are not
/// gathered, CheckpointError when the file cannot be written.
void save(const Module& module, const std::string& path);

/// Loads what `save`, or another program, wrote, as `Module::load_state_dict` does: all of it or nothing.
/// Throws what that throws, and CheckpointError when the file cannot be read.
void load(Module& module, const std::string& path, bool strict = true);

/// Every tensor of a safetensors file, in the order of the file. Throws CheckpointError.
StateDict read_state_dict(const std::string& path);

}  // namespace tessera::nn
