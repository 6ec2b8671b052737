#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/arithmetic.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class Function, class T>
void ternary_loop(const void* a_bytes, const void* b_bytes, const void* c_bytes, double factor, void* y_bytes,
                  int64_t n) {
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  const T* c = static_cast<const T*>(c_bytes);
  T* y = static_cast<T*>(y_bytes);
  const T rounded = static_cast<T>(factor);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = Function::call(a[i], b[i], c[i], rounded);
}

#define TESSERA_TERNARY_FUNCTION(name)                          \
  struct ternary_##name {                                       \
    template <class T>                                          \
    static TESSERA_ELEMENT auto call(T a, T b, T c, T factor) { \
      return elementwise::name(a, b, c, factor);                \
    }                                                           \
  };
#define TESSERA_TERNARY_CASE(name) \
  case TernaryOp::name:            \
    return &ternary_loop<ternary_##name, T>;

TESSERA_TERNARY_FLOAT_OPS(TESSERA_TERNARY_FUNCTION)
TESSERA_TERNARY_NUMERIC_OPS(TESSERA_TERNARY_FUNCTION)

template <class T>
TernaryBlock float_block(TernaryOp op) {
  switch (op) {
    TESSERA_TERNARY_FLOAT_OPS(TESSERA_TERNARY_CASE)
    TESSERA_TERNARY_NUMERIC_OPS(TESSERA_TERNARY_CASE)
  }
  return nullptr;
}

template <class T>
TernaryBlock integer_block(TernaryOp op) {
  switch (op) {
    TESSERA_TERNARY_NUMERIC_OPS(TESSERA_TERNARY_CASE)
    default:
      return nullptr;
  }
}

/// y = condition ? a : b, for elements of any type that has the size of T.
template <class T>
void where_loop(const void* condition_bytes, const void* a_bytes, const void* b_bytes, double, void* y_bytes,
                int64_t n) {
  const uint8_t* condition = static_cast<const uint8_t*>(condition_bytes);
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  T* y = static_cast<T*>(y_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = condition[i] != 0 ? a[i] : b[i];
}

}  // namespace

TernaryBlock ternary_block(TernaryOp op, DType type) {
  switch (type) {
    case DType::f64:
      return float_block<double>(op);
    case DType::f32:
      return float_block<float>(op);
    case DType::i64:
      return integer_block<int64_t>(op);
    case DType::i32:
      return integer_block<int32_t>(op);
    case DType::u8:
      return integer_block<uint8_t>(op);
    default:
      return nullptr;
  }
}

TernaryBlock where_block(int64_t element_size) {
  switch (element_size) {
    case 8:
      return &where_loop<uint64_t>;
    case 4:
      return &where_loop<uint32_t>;
    case 2:
      return &where_loop<uint16_t>;
    default:
      return &where_loop<uint8_t>;
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
