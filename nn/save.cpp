#include "nn/save.h"

#include "tensor/io/safetensors.h"

namespace tessera::nn {

void save(const Module& module, const std::string& path) {
  const StateDict state = module.state_dict();
  for (const NamedTensor& entry : state)
    require<DeviceError>(!entry.tensor.is_meta(), "save: '", entry.name,
                         "' is on meta; materialize the module first");
  io::write_safetensors(path, state);
}

void load(Module& module, const std::string& path, bool strict) {
  module.load_state_dict(read_state_dict(path), strict);
}

StateDict read_state_dict(const std::string& path) {
  const io::SafetensorsFile file(path);
  StateDict state;
  for (const io::SafetensorsEntry& entry : file.entries())
    state.push_back({entry.name, file.read(entry.name)});
  return state;
}

}  // namespace tessera::nn
