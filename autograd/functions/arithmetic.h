#pragma once
#include "autograd/variable.h"
namespace tessera {
/// a + b.
Variable add(const Variable& a, const Variable& b);
/// a - b.
Variable sub(const Variable& a, const Variable& b);
/// a * b.
Variable mul(const Variable& a, const Variable& b);
/// a += b.
void add_(const Variable& a, const Variable& b);
inline Variable operator+(const Variable& a, const Variable& b) {
  return add(a, b);
}
inline Variable operator-(const Variable& a, const Variable& b) {
  return sub(a, b);
}
inline Variable operator*(const Variable& a, const Variable& b) {
  return mul(a, b);
}
}  // namespace tessera
