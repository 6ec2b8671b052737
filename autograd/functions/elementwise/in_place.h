#pragma once

#include <optional>

#include "autograd/variable.h"
#include "tensor/elementwise/op_lists.h"
#include "tensor/types/scalar.h"

/// In place: x becomes f(x). The arithmetic ones are in binary.h. All throw as `record_in_place`
/// (autograd/record.h). Inside a graph they save what the function saves and copy its result to x; elsewhere
/// they need no memory.
namespace tessera {

/// x = f(x) for the unary operations f of TESSERA_UNARY_IN_PLACE_OPS (tensor/elementwise/op_lists.h).
/// @{
#define TESSERA_DECLARE(name) void name##_(const Variable& x);
TESSERA_UNARY_IN_PLACE_OPS(TESSERA_DECLARE)
#undef TESSERA_DECLARE
/// @}
/// x^n.
void pow_(const Variable& x, const Scalar& n);
/// Limited to [low, high]; a missing bound does not limit.
void clamp_(const Variable& x, std::optional<Scalar> low, std::optional<Scalar> high = {});
/// n, and 0; the gradient of the old values is 0.
/// @{
void fill_(const Variable& x, const Scalar& n);
void zero_(const Variable& x);
/// @}
/// The values of y, broadcast to x's shape and converted to its dtype. Nothing is saved; the gradient goes to
/// y.
void copy_(const Variable& x, const Variable& y);
/// As the functions without `_`. Only what these save is saved.
/// @{
void lerp_(const Variable& x, const Variable& end, double weight);
void addcmul_(const Variable& x, const Variable& a, const Variable& b, double factor = 1);
void addcdiv_(const Variable& x, const Variable& a, const Variable& b, double factor = 1);
void clamp_min_(const Variable& x, const Scalar& min);
void clamp_max_(const Variable& x, const Scalar& max);
void masked_fill_(const Variable& x, const Tensor& mask, const Scalar& value);
void scatter_(const Variable& x, int64_t dim, const Tensor& index, const Variable& source);
void scatter_(const Variable& x, int64_t dim, const Tensor& index, const Scalar& value);
void scatter_add_(const Variable& x, int64_t dim, const Tensor& index, const Variable& source);
void index_add_(const Variable& x, int64_t dim, const Tensor& index, const Variable& source);
void index_copy_(const Variable& x, int64_t dim, const Tensor& index, const Variable& source);
void index_fill_(const Variable& x, int64_t dim, const Tensor& index, const Scalar& value);
/// @}
/// Random values, as the functions on Tensors (tensor/ops/creation/generator.h); the gradient of the old
/// values is 0.
/// @{
void normal_(const Variable& x, double mean = 0, double deviation = 1);
void uniform_(const Variable& x, double low = 0, double high = 1);
void bernoulli_(const Variable& x, double probability = 0.5);
/// @}

}  // namespace tessera
