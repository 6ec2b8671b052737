#include "tools/cuda_sim/machine/types.h"

#include <array>
#include <utility>

namespace tessera::cuda_sim {

namespace {

struct Row {
  Type type;
  std::string_view name;
  int bytes;
  bool is_float, is_signed;
};

constexpr std::array rows = {
    Row{Type::none, "", 0, false, false},       Row{Type::pred, "pred", 0, false, false},
    Row{Type::b8, "b8", 1, false, false},       Row{Type::b16, "b16", 2, false, false},
    Row{Type::b32, "b32", 4, false, false},     Row{Type::b64, "b64", 8, false, false},
    Row{Type::b128, "b128", 16, false, false},  Row{Type::u8, "u8", 1, false, false},
    Row{Type::u16, "u16", 2, false, false},     Row{Type::u32, "u32", 4, false, false},
    Row{Type::u64, "u64", 8, false, false},     Row{Type::s8, "s8", 1, false, true},
    Row{Type::s16, "s16", 2, false, true},      Row{Type::s32, "s32", 4, false, true},
    Row{Type::s64, "s64", 8, false, true},      Row{Type::f16, "f16", 2, true, true},
    Row{Type::f16x2, "f16x2", 4, true, true},   Row{Type::bf16, "bf16", 2, true, true},
    Row{Type::bf16x2, "bf16x2", 4, true, true}, Row{Type::tf32, "tf32", 4, true, true},
    Row{Type::f32, "f32", 4, true, true},       Row{Type::f64, "f64", 8, true, true},
};

const Row& row(Type type) {
  return rows[static_cast<size_t>(type)];
}

}  // namespace

int type_bytes(Type type) {
  return row(type).bytes;
}

bool is_float(Type type) {
  return row(type).is_float;
}

bool is_signed(Type type) {
  return row(type).is_signed;
}

std::string_view type_name(Type type) {
  return row(type).name;
}

Type type_named(std::string_view name) {
  for (const Row& candidate : rows)
    if (candidate.name == name) return candidate.type;
  return Type::none;
}

}  // namespace tessera::cuda_sim
