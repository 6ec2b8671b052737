#include "tensor/ops/kernel.h"

namespace tessera {

Device common_device(const char* where, std::initializer_list<const Tensor*> operands) {
  bool any_meta = false;
  Device shared = cpu();
  bool first = true;
  for (const Tensor* operand : operands) {
    require<ValueError>(operand->defined(), where, ": an operand is an undefined tensor");
    const Device device = operand->device();
    if (device.is_meta()) {
      any_meta = true;
      continue;
    }
    require<DeviceError>(first || device == shared, where, ": expected all operands on one device, got ",
                         shared, " and ", device);
    shared = device;
    first = false;
  }
  return any_meta ? meta() : shared;
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
