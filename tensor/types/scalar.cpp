#include "tensor/types/scalar.h"

#include <cstring>

#include "tensor/error.h"

namespace tessera {
namespace {

template <class T>
void put(void* element, T value) {
  std::memcpy(element, &value, sizeof value);
}

template <class T>
void put_integer(void* element, int64_t value, DType dtype, const char* where) {
  require<ValueError>(static_cast<int64_t>(static_cast<T>(value)) == value, where, ": the number ", value,
                      " does not fit in ", dtype);
  put(element, static_cast<T>(value));
}

}  // namespace

void Scalar::write(DType dtype, void* element, const char* where) const {
  if (dtype == boolean)
    require<DTypeError>(is_boolean(), where, ": expected a bool with a bool tensor, got the number ", *this,
                        "; cast the tensor to a numeric dtype first");
  else
    require<DTypeError>(!is_floating() || tessera::is_floating(dtype), where, ": the number ", *this,
                        " is floating and the tensor is ", dtype, "; cast the tensor to f32 first");
  switch (dtype) {
    case DType::f64:
      return put(element, real_);
    case DType::f32:
      return put(element, static_cast<float>(real_));
    case DType::bf16:
      return put(element, bfloat16(static_cast<float>(real_)));
    case DType::f16:
      return put(element, float16(static_cast<float>(real_)));
    case DType::i64:
      return put(element, integer_);
    case DType::i32:
      return put_integer<int32_t>(element, integer_, dtype, where);
    case DType::u8:
      return put_integer<uint8_t>(element, integer_, dtype, where);
    case DType::boolean:
      return put(element, static_cast<uint8_t>(integer_ != 0));
  }
}

std::string Scalar::str() const {
  if (is_boolean()) return integer_ != 0 ? "true" : "false";
  return is_integer() ? text(integer_) : text(real_);
}

}  // namespace tessera
