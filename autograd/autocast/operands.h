#pragma once  // internal

#include <initializer_list>
#include <span>
#include <vector>

#include "autograd/autocast/autocast.h"
#include "autograd/variable.h"

/// How an operation chooses the dtype of its operands under autocast. It asks whether operands are to be
/// cast, and then calls itself with the casts:
///
///     if (autocast::lowers(a, b)) [[unlikely]]
///       return matmul(autocast::low(a), autocast::low(b));
///
/// Without autocast the question is one read of a thread-local variable.
namespace tessera::autocast {

/// Whether `x` is defined and of bf16 or f16.
inline bool is_half(const Variable& x) {
  return x.defined() && (x.dtype() == bf16 || x.dtype() == f16);
}
/// Whether `x` is one of f32, bf16 and f16, but not of the scope's dtype.
inline bool is_lowered(const Variable& x) {
  return x.defined() && (x.dtype() == f32 || is_half(x)) && x.dtype() != autocast_dtype();
}

/// Whether an operation in the scope's dtype casts one of these.
template <class... Operands>
bool lowers(const Operands&... operands) {
  return is_autocast_enabled() && (is_lowered(operands) || ...);
}
/// Whether an operation in f32 casts one of these.
template <class... Operands>
bool widens(const Operands&... operands) {
  return is_autocast_enabled() && (is_half(operands) || ...);
}
/// Whether an operation in the widest dtype casts one of these.
template <class... Operands>
bool mixes(const Variable& first, const Operands&... rest) {
  return is_autocast_enabled() && ((rest.defined() && rest.dtype() != first.dtype()) || ...);
}
bool mixes(std::span<const Variable> operands);

/// `x` in the scope's dtype where `is_lowered`. A product saves the cast of a parameter as a function that
/// casts again in backward, so no copy of the weights is held.
Variable low(const Variable& x);
/// `x` in f32 where it is of a half type.
Variable wide(const Variable& x);
/// `x` in `dtype` where it is defined and floating.
Variable in_dtype(const Variable& x, DType dtype);

/// The dtype to which all defined operands promote.
/// @{
DType widest(std::span<const Variable> operands);
inline DType widest(std::initializer_list<Variable> operands) {
  return widest(std::span<const Variable>(operands.begin(), operands.size()));
}
/// @}
/// All operands in that dtype.
/// @{
std::vector<Variable> in_widest(std::span<const Variable> operands);
inline std::vector<Variable> in_widest(std::initializer_list<Variable> operands) {
  return in_widest(std::span<const Variable>(operands.begin(), operands.size()));
}
/// @}

}  // namespace tessera::autocast
