#include "tensor/composed/functions.h"

#include "tensor/functions.h"

namespace tessera {
using X = Tensor;
}

#include "tensor/composed/functions.inc"
//
#include "tensor/composed/einsum.inc"
