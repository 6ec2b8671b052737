// The kernels and variables that the program's objects register.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/cuda_sim/machine/loader.h"
#include "tools/cuda_sim/runtime/graph/node_parameters.h"

namespace tessera::cuda_sim {

struct DeviceState;

/// An object's fat binary.
struct Image {
  std::vector<std::string> texts;                        ///< of PTX
  std::string error;                                     ///< why there are none
  std::map<int, std::unique_ptr<LoadedModule>> modules;  ///< by device
  std::map<int, std::set<uint64_t>> variables;           ///< their addresses, by device
};

struct RegisteredFunction {
  const void* host = nullptr;
  std::string name, readable_name;
  Image* image = nullptr;
  std::map<int, int> max_dynamic_shared;  ///< by device, where cudaFuncSetAttribute was called
  std::map<int, int> carveout;
};

struct RegisteredVariable {
  std::string name;
  Image* image = nullptr;
  bool is_managed = false;
};

/// Kernels are known by the address of their host stub, variables by that of their host shadow. A device
/// loads an image when it first needs something of it.
class Kernels {
 public:
  Image* add_image(const void* wrapper);
  void remove_image(Image* image);
  void add_function(Image* image, const void* host, const char* name);
  void add_variable(Image* image, const void* host, const char* name, bool is_managed);

  RegisteredFunction* find(const void* host);
  /// Null: why is written to stderr, and `error` is what the call returns.
  const Program* program(DeviceState& device, const RegisteredFunction& function, cudaError_t& error);
  /// Where a variable is on a device.
  std::optional<LoadedVariable> variable(DeviceState& device, const void* host);
  /// Whether an allocation is a module's variable, and not the program's to free.
  bool is_variable(const DeviceState& device, uint64_t address) const;
  /// Runs a launch. @throws KernelFault
  void run(DeviceState& device, const KernelParameters& kernel, Operation operation);

 private:
  LoadedModule* load(DeviceState& device, Image& image, cudaError_t& error);
  std::deque<std::unique_ptr<Image>> images_;
  std::map<const void*, RegisteredFunction> functions_;
  std::map<const void*, RegisteredVariable> variables_;
};

}  // namespace tessera::cuda_sim
