#include "autograd/autocast/autocast.h"

#include "tensor/error.h"

namespace tessera {

AutocastScope::AutocastScope(DType dtype) : previous_(autocast_dtype()) {
  require<DTypeError>(dtype == bf16 || dtype == f16 || dtype == f32,
                      "AutocastScope: expected bf16, f16, or f32 for no autocast, got ", dtype);
  detail::autocast_dtype_of_thread = dtype;
}

}  // namespace tessera
