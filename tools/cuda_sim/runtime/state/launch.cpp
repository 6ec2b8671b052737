#include "tools/cuda_sim/runtime/state/launch.h"

#include <cstring>

namespace tessera::cuda_sim {

namespace {

constexpr unsigned max_block_z = 64, max_grid_yz = 65535, max_grid_x = 0x7fffffff;

bool has_valid_extents(dim3 grid, dim3 block) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) return false;
  if (grid.x > max_grid_x || grid.y > max_grid_yz || grid.z > max_grid_yz) return false;
  return block.x <= max_threads_per_block && block.y <= max_threads_per_block && block.z <= max_block_z &&
         uint64_t{block.x} * block.y * block.z <= max_threads_per_block;
}

}  // namespace

size_t max_dynamic_shared(const DeviceState& device, const RegisteredFunction& function,
                          const Program& program) {
  const auto it = function.max_dynamic_shared.find(device.index());
  if (it != function.max_dynamic_shared.end()) return static_cast<size_t>(it->second);
  return shared_per_block_default - std::min<size_t>(shared_per_block_default, program.static_shared_bytes);
}

cudaError_t make_kernel_parameters(Call& call, DeviceState& device, const void* host, dim3 grid, dim3 block,
                                   void** arguments, size_t shared, KernelParameters& kernel) {
  const RegisteredFunction* function = call.runtime.kernels.find(host);
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  cudaError_t error = cudaSuccess;
  const Program* program = call.runtime.kernels.program(device, *function, error);
  if (program == nullptr) return error;
  if (!has_valid_extents(grid, block)) return cudaErrorInvalidConfiguration;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (program->required_threads != 0 && threads != program->required_threads)
    return cudaErrorInvalidConfiguration;
  if (threads > program->max_threads) return cudaErrorLaunchOutOfResources;
  if (shared > max_dynamic_shared(device, *function, *program)) return cudaErrorInvalidValue;
  kernel.function = function;
  kernel.shape.grid = {grid.x, grid.y, grid.z};
  kernel.shape.block = {block.x, block.y, block.z};
  kernel.shape.dynamic_shared_bytes = static_cast<uint32_t>(shared);
  kernel.bytes.resize(program->parameter_bytes);
  if (!program->parameters.empty() && arguments == nullptr) return cudaErrorInvalidValue;
  for (size_t i = 0; i < program->parameters.size(); ++i) {
    const Parameter& parameter = program->parameters[i];
    std::memcpy(kernel.bytes.data() + parameter.offset, arguments[i], parameter.bytes);
  }
  return cudaSuccess;
}

}  // namespace tessera::cuda_sim
