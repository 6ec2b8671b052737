// A module on a device: its variables in the device's memory, its kernels decoded.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/machine/program.h"
#include "tools/cuda_sim/ptx/tree.h"

namespace tessera::cuda_sim {

/// A .global or .const variable on a device.
struct LoadedVariable {
  uint64_t address = 0, bytes = 0;
};

/// A module as one device has it. Variables are allocated and written at once; a kernel is decoded when it is
/// first asked for, so that a module may hold kernels with instructions that are not known. Thread-safe.
class LoadedModule {
 public:
  /// @throws std::runtime_error where the device's memory does not hold the variables, or one has the address
  /// of a symbol that is not there.
  LoadedModule(Device& device, ptx::Module module);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  bool has_kernel(const std::string& name) const;
  std::vector<std::string> kernels() const;
  /// The kernel's program, which lives as long as the module.
  /// @throws std::runtime_error where there is no such kernel, or what decode_kernel throws, each time.
  const Program& program(const std::string& name);
  /// Null where there is none of this name.
  const LoadedVariable* variable(const std::string& name) const;

 private:
  void allocate(const ptx::Variable& variable);
  void write_initial(const ptx::Variable& variable);

  Device* device_;
  ptx::Module module_;
  std::map<const ptx::Variable*, uint64_t> addresses_;
  std::map<std::string, LoadedVariable> variables_;
  std::mutex mutex_;
  std::map<std::string, Program> programs_;
  std::map<std::string, std::string> errors_;
};

}  // namespace tessera::cuda_sim
