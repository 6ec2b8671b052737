#include "tensor/methods.h"

#include "tensor/functions.h"
#include "tensor/methods/definitions.h"

namespace tessera {

template class TensorMethods<Tensor>;

}  // namespace tessera
