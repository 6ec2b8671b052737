#pragma once  // internal

#include <cstdint>
#include <memory>

#include "tensor/device.h"

namespace tessera {

class MemorySource;
class Tensor;

/// What storages and tensors need of the CUDA backend. A build without it has functions that throw
/// NotBuiltError (tensor/cuda_absent.cpp).
namespace cuda_backend {

/// The number of CUDA devices that this process may use; 0 where there is no driver or no card.
int device_count();
/// Throws DeviceError where there is no device of that index, saying what is missing.
void require_device(Device device);
/// Makes cuda:0, cuda:1, ... simulated cards. Throws DeviceError where the simulator is not there, and when
/// cards are in use already.
void use_simulated_card();
/// Whether they are.
bool is_simulated();

/// `nbytes` of uninitialised memory, for work of this thread's current stream. Throws OutOfMemoryError,
/// DeviceError.
void* allocate(Device device, int64_t nbytes);
/// Gives a block back.
void free(Device device, void* block) noexcept;

/// Copies between two devices, one of them CUDA, to a contiguous target of the source's shape and dtype; the
/// source has any strides. The copy has been given to the current stream of a CUDA device. Where it `waits`,
/// one to the CPU has ended when the call returns, and the source may change; else that holds but for pinned
/// memory, of which the caller waits for the device (`synchronize`).
void copy(const Tensor& source, const Tensor& target, bool waits = true);
/// Page-locked memory of the host, as a source of storages. It asks for the runtime when it is used.
std::shared_ptr<MemorySource> pinned_memory();
/// Whether a tensor lies in it.
bool is_pinned(const Tensor& x);
/// Waits until all work that this thread's current stream of the device has been given has ended. Throws what
/// a kernel failed with.
void synchronize(Device device);

}  // namespace cuda_backend
}  // namespace tessera
