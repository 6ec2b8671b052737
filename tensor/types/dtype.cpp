#include "tensor/types/dtype.h"

#include "tensor/error.h"

namespace tessera {
namespace {
constexpr const char* names[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "u8", "bool"};
}

std::string to_string(DType dtype) {
  return names[static_cast<int>(dtype)];
}

DType parse_dtype(const std::string& name) {
  for (int i = 0; i < 8; ++i)
    if (name == names[i]) return static_cast<DType>(i);
  throw ValueError(text("unknown dtype '", name, "': expected f64, f32, bf16, f16, i64, i32, u8 or bool"));
}

}  // namespace tessera
