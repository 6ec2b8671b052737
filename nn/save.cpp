#include "nn/save.h"

#include <set>

#include "tensor/io/safetensors.h"

namespace tessera::nn {

void save(const Module& module, const std::string& path) {
  save(module.state_dict(), path);
}

void save(const StateDict& state, const std::string& path) {
  for (const NamedTensor& entry : state)
    require<DeviceError>(!entry.tensor.is_meta(), "save: '", entry.name,
                         "' is on meta; materialize the module first");
  io::write_safetensors(path, state);
}

LoadResult load(Module& module, const std::string& path, bool strict) {
  if (strict) return module.load_state_dict(read_state_dict(path));
  std::set<std::string> names;
  module.for_each_entry([&](const std::string& name, const Module::Entry&) { names.insert(name); });
  const io::SafetensorsFile file(path);
  StateDict state;
  std::vector<std::string> unexpected;
  for (const io::SafetensorsEntry& entry : file.entries())
    if (names.contains(entry.name))
      state.push_back({entry.name, file.read(entry.name)});
    else
      unexpected.push_back(entry.name);
  LoadResult result = module.load_state_dict(state, /*strict=*/false);
  result.unexpected_keys.insert(result.unexpected_keys.end(), unexpected.begin(), unexpected.end());
  return result;
}

StateDict read_state_dict(const std::string& path) {
  const io::SafetensorsFile file(path);
  StateDict state;
  for (const io::SafetensorsEntry& entry : file.entries())
    state.push_back({entry.name, file.read(entry.name)});
  return state;
}

}  // namespace tessera::nn
