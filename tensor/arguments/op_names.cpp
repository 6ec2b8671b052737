#include "tensor/arguments/op_names.h"

#include "tensor/elementwise/op_lists.h"

#define TESSERA_UNARY_NAME(name) \
  case UnaryOp::name:            \
    return #name;
#define TESSERA_BINARY_NAME(name) \
  case BinaryOp::name:            \
    return #name;
#define TESSERA_TERNARY_NAME(name) \
  case TernaryOp::name:            \
    return #name;

namespace tessera {

const char* name_of(UnaryOp op) {
  switch (op) {
    TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_NAME)
    TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_NAME)
    TESSERA_UNARY_INTEGER_OPS(TESSERA_UNARY_NAME)
    TESSERA_UNARY_PREDICATES(TESSERA_UNARY_NAME)
  }
  return "";
}

const char* name_of(BinaryOp op) {
  switch (op) {
    TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_NAME)
    TESSERA_BINARY_FLOAT_OPS(TESSERA_BINARY_NAME)
    TESSERA_BINARY_INTEGER_OPS(TESSERA_BINARY_NAME)
    TESSERA_BINARY_COMPARISONS(TESSERA_BINARY_NAME)
  }
  return "";
}

const char* name_of(TernaryOp op) {
  switch (op) {
    TESSERA_TERNARY_FLOAT_OPS(TESSERA_TERNARY_NAME)
    TESSERA_TERNARY_NUMERIC_OPS(TESSERA_TERNARY_NAME)
  }
  return "";
}

}  // namespace tessera
