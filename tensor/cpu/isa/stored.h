#pragma once  // internal

#include "tensor/elementwise/convert.h"

namespace tessera::kernels::cpu::TESSERA_ISA {

// Conversions between values as stored and values as computed: the 16-bit formats are computed in f32.

TESSERA_ELEMENT double widen(double x) {
  return x;
}
TESSERA_ELEMENT float widen(float x) {
  return x;
}
TESSERA_ELEMENT float widen(elementwise::Bf16 x) {
  return elementwise::to_f32(x);
}
TESSERA_ELEMENT float widen(elementwise::F16 x) {
  return elementwise::to_f32(x);
}

/// A bool as it is stored: a byte that is 0 or 1.
struct Boolean {
  uint8_t byte;
};

/// The type that `widen` gives for a stored T.
template <class T>
using Wide = decltype(widen(T{}));

TESSERA_ELEMENT void narrow(double x, double& out) {
  out = x;
}
TESSERA_ELEMENT void narrow(float x, float& out) {
  out = x;
}
TESSERA_ELEMENT void narrow(float x, elementwise::Bf16& out) {
  out = elementwise::to_bf16(x);
}
TESSERA_ELEMENT void narrow(float x, elementwise::F16& out) {
  out = elementwise::to_f16(x);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
