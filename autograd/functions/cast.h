#pragma once
#include "autograd/variable.h"
namespace tessera {
/// The elements converted to `dtype`.
Variable cast(const Variable& x, DType dtype);
}  // namespace tessera
