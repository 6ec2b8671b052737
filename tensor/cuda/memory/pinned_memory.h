#pragma once  // internal

#include <cstdint>
#include <memory>

#include "tensor/memory/storage.h"

namespace tessera::cuda_runtime {

/// Page-locked memory of the host, from which copies to and from a device run beside computation: a source
/// for Storage::allocate. Blocks are kept for reuse until the process ends.
std::shared_ptr<MemorySource> pinned_memory();

}  // namespace tessera::cuda_runtime
