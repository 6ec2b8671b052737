#pragma once

#include "tensor/tensor.h"

/// Copies that run beside the host: to a CUDA device from pinned memory, and back into it. Pinned memory is
/// memory of the host that stays where it is, so that a device reads and writes it by itself.
namespace tessera::ops {

/// A copy on the CPU in pinned memory; `x` itself where it is there. Throws NotBuiltError in a build without
/// CUDA, DeviceError where no runtime is found.
Tensor pin_memory(const Tensor& x);
/// Whether the values lie in pinned memory.
bool is_pinned(const Tensor& x);

/// How `to_device` copies.
struct DeviceCopyOptions {
  /// The call returns before the copy has run. Of a source in pinned memory the values must not change, and
  /// of a result on the CPU, which is then pinned, they must not be read, before `synchronize(device)`.
  bool non_blocking = false;
};
/// `x.to(device)`.
Tensor to_device(const Tensor& x, Device device, const DeviceCopyOptions& options);

}  // namespace tessera::ops
