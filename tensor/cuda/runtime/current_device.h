#pragma once  // internal

#include "tensor/device.h"

namespace tessera::cuda_runtime {

/// Makes `device` this thread's own one, to which guards go back.
void set_current_device(Device device);

}  // namespace tessera::cuda_runtime
