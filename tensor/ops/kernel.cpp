#include "tensor/ops/kernel.h"

#include "tensor/memory/plan.h"

namespace tessera {

namespace {

[[noreturn]] void throw_partly_on_meta(const char* where, std::initializer_list<const Tensor*> operands) {
  std::string list;
  for (const Tensor* operand : operands) list = text(list, list.empty() ? "" : ", ", describe(*operand));
  throw DeviceError(
      text(where, ": operands with values and operands on meta, without values: ", list,
           "; materialize the model first (nn::materialize), or give it inputs on meta (a member module "
           "is part of a model only where add(name, module) made it)"));
}

/// Of two different devices, one of them the CPU, the batched one: its samples share the other operand.
Device batched_among(const char* where, Device a, Device b) {
  if (a.is_batched() && b.is_cpu()) return a;
  if (b.is_batched() && a.is_cpu()) return b;
  if (a.is_batched() && b.is_batched()) throw_no_batching_rule(where);
  throw DeviceError(text(where, ": expected all operands on one device, got ", a, " and ", b));
}

}  // namespace

Device common_device(const char* where, std::initializer_list<const Tensor*> operands) {
  const Tensor *on_meta = nullptr, *real = nullptr;
  for (const Tensor* operand : operands) {
    require<ValueError>(operand->defined(), where, ": expected defined operands, got an undefined tensor");
    const Device device = operand->device();
    if (device.is_meta()) {
      on_meta = operand;
      continue;
    }
    if (real && device != real->device()) [[unlikely]] {
      if (batched_among(where, real->device(), device) == real->device()) continue;
    }
    real = operand;
  }
  if (!on_meta) return real ? real->device() : cpu();
  if (real && !is_planning()) throw_partly_on_meta(where, operands);
  return meta();
}

void require_same_dtype(const char* where, std::initializer_list<const Tensor*> operands) {
  const Tensor& first = **operands.begin();
  for (const Tensor* operand : operands)
    require<DTypeError>(operand->dtype() == first.dtype(), where, ": expected one dtype, got ",
                        describe(first), " and ", describe(*operand));
}

void require_floating(const char* where, const Tensor& operand) {
  require<DTypeError>(is_floating(operand.dtype()), where, ": expected a floating dtype, got ",
                      describe(operand));
}

}  // namespace tessera
