#include "tools/cuda_sim/runtime/state/kernels.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tools/cuda_sim/machine/grid.h"
#include "tools/cuda_sim/runtime/state/device_state.h"
#include "tools/cuda_sim/runtime/state/fat_binary.h"

namespace tessera::cuda_sim {

namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? text.get() : name;
}

/// 90 of "sm_90a"; 0 where there is no number.
int capability_of(const std::string& target) {
  const size_t at = target.find("sm_");
  return at == std::string::npos ? 0 : std::atoi(target.c_str() + at + 3);
}

}  // namespace

Image* Kernels::add_image(const void* wrapper) {
  auto image = std::make_unique<Image>();
  try {
    image->texts = ptx_of_fat_binary(wrapper);
    if (image->texts.empty())
      image->error = "it holds no PTX; compile with -gencode arch=compute_90,code=[compute_90,sm_90]";
  } catch (const std::exception& failure) {
    image->error = failure.what();
  }
  images_.push_back(std::move(image));
  return images_.back().get();
}

void Kernels::remove_image(Image* image) {
  // A launch that is still waiting may need the programs: only the names go.
  std::erase_if(functions_, [&](const auto& entry) { return entry.second.image == image; });
  std::erase_if(variables_, [&](const auto& entry) { return entry.second.image == image; });
}

void Kernels::add_function(Image* image, const void* host, const char* name) {
  RegisteredFunction function;
  function.host = host;
  function.name = name;
  function.readable_name = demangled(name);
  function.image = image;
  functions_[host] = std::move(function);
}

void Kernels::add_variable(Image* image, const void* host, const char* name, bool is_managed) {
  variables_[host] = {.name = name, .image = image, .is_managed = is_managed};
}

RegisteredFunction* Kernels::find(const void* host) {
  const auto it = functions_.find(host);
  return it == functions_.end() ? nullptr : &it->second;
}

LoadedModule* Kernels::load(DeviceState& device, Image& image, cudaError_t& error) {
  std::unique_ptr<LoadedModule>& module = image.modules[device.index()];
  if (module) return module.get();
  try {
    // As a card's driver does: the PTX for the highest architecture that the device can run.
    std::optional<ptx::Module> best;
    int best_capability = -1;
    for (const std::string& text : image.texts) {
      ptx::Module parsed = ptx::parse(text);
      const int capability = capability_of(parsed.target);
      if (capability > device.architecture->capability || capability <= best_capability) continue;
      best_capability = capability;
      best = std::move(parsed);
    }
    if (!best) {
      std::fprintf(stderr, "[cuda_sim] an object has no code for sm_%d: %s\n",
                   device.architecture->capability,
                   image.error.empty() ? "its PTX is for later architectures" : image.error.c_str());
      error = cudaErrorNoKernelImageForDevice;
      return nullptr;
    }
    const auto before = device.device.memory().live();
    module = std::make_unique<LoadedModule>(device.device, std::move(*best));
    for (const auto& [address, allocation] : device.device.memory().live())
      if (!before.contains(address)) image.variables[device.index()].insert(address);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "[cuda_sim] an object's PTX is not understood: %s\n", failure.what());
    error = cudaErrorInvalidPtx;
    return nullptr;
  }
  return module.get();
}

const Program* Kernels::program(DeviceState& device, const RegisteredFunction& function, cudaError_t& error) {
  LoadedModule* module = load(device, *function.image, error);
  if (module == nullptr) return nullptr;
  if (!module->has_kernel(function.name)) {
    error = cudaErrorInvalidDeviceFunction;
    return nullptr;
  }
  try {
    return &module->program(function.name);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "[cuda_sim] %s: %s\n", function.readable_name.c_str(), failure.what());
    error = cudaErrorInvalidPtx;
    return nullptr;
  }
}

std::optional<LoadedVariable> Kernels::variable(DeviceState& device, const void* host) {
  const auto it = variables_.find(host);
  if (it == variables_.end() || it->second.is_managed) return std::nullopt;
  cudaError_t ignored = cudaSuccess;
  const LoadedModule* module = load(device, *it->second.image, ignored);
  const LoadedVariable* variable = module == nullptr ? nullptr : module->variable(it->second.name);
  return variable == nullptr ? std::nullopt : std::optional(*variable);
}

bool Kernels::is_variable(const DeviceState& device, uint64_t address) const {
  for (const auto& image : images_) {
    const auto it = image->variables.find(device.index());
    if (it != image->variables.end() && it->second.contains(address)) return true;
  }
  return false;
}

void Kernels::run(DeviceState& device, const KernelParameters& kernel, Operation operation) {
  cudaError_t error = cudaErrorInvalidDeviceFunction;
  const Program* program = Kernels::program(device, *kernel.function, error);
  if (program == nullptr) throw KernelFault(error, "its code is gone");
  run_grid(device.device, *program, kernel.shape, kernel.bytes, operation);
}

}  // namespace tessera::cuda_sim
