#include "nn/save.h"

#include <set>

#include "nn/sequence/hold.h"
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

namespace {

/// The entries of a file that `is_wanted` accepts by name.
template <class Wanted>
StateDict read_entries(const io::SafetensorsFile& file, const Wanted& is_wanted) {
  StateDict state;
  for (const io::SafetensorsEntry& entry : file.entries())
    if (is_wanted(entry.name)) state.push_back({entry.name, file.read(entry.name)});
  return state;
}

}  // namespace

LoadResult load(Module& module, const std::string& path, bool strict) {
  const io::SafetensorsFile file(path);
  const std::set<std::string> elsewhere = names_held_elsewhere(module);
  if (strict)
    return module.load_state_dict(
        read_entries(file, [&](const std::string& name) { return !elsewhere.contains(name); }));
  std::set<std::string> names;
  module.for_each_entry([&](const std::string& name, const Module::Entry&) { names.insert(name); });
  LoadResult result = module.load_state_dict(
      read_entries(file, [&](const std::string& name) { return names.contains(name); }), /*strict=*/false);
  for (const io::SafetensorsEntry& entry : file.entries())
    if (!names.contains(entry.name) && !elsewhere.contains(entry.name))
      result.unexpected_keys.push_back(entry.name);
  return result;
}

StateDict read_state_dict(const std::string& path) {
  return read_entries(io::SafetensorsFile(path), [](const std::string&) { return true; });
}

}  // namespace tessera::nn
