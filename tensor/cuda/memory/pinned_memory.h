#pragma once  // internal

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "tensor/device.h"
#include "tensor/memory/storage.h"

namespace tessera::cuda_runtime {

/// Page-locked memory of the host, from which copies to and from a device run beside computation: a source
/// for Storage::allocate. Blocks are kept for reuse until the process ends.
std::shared_ptr<MemorySource> pinned_memory();

/// Whether the address lies in a block in use.
bool is_pinned(const void* address);
/// Says that a copy that `stream` has been given uses the block at the address: after it has been given back
/// the block is not given out again before the copy has ended.
void use_pinned(const void* address, Device device, cudaStream_t stream);

}  // namespace tessera::cuda_runtime
