#include "tools/cuda_sim/instructions/memory/access.h"

#include <algorithm>
#include <array>

namespace tessera::cuda_sim {

namespace {

constexpr std::array<std::string_view, 9> spaces = {"global",      "shared", "shared::cta",
                                                    "local",       "param",  "param::entry",
                                                    "param::func", "const",  "shared::cluster"};
constexpr std::array<std::string_view, 11> orders = {
    "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "cta", "cluster", "gpu", "sys"};
/// Cache operators and eviction priorities: what they say is about time.
constexpr std::array<std::string_view, 8> hints = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"};

bool is_hint(std::string_view modifier) {
  return modifier.starts_with("L1::") || modifier.starts_with("L2::") ||
         std::find(hints.begin(), hints.end(), modifier) != hints.end();
}

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void allow_memory_modifiers(const DecodeContext& context, std::initializer_list<std::string_view> allowed) {
  for (const std::string& modifier : context.modifiers()) {
    const bool is_known = type_named(modifier) != Type::none || contains(spaces, modifier) ||
                          contains(orders, modifier) || is_hint(modifier) || contains(allowed, modifier);
    if (!is_known) context.unknown("modifier ." + modifier);
  }
}

void decode_order(DecodeContext& context, Order unmarked) {
  Instruction& result = context.result();
  result.order = context.has("volatile")  ? Order::volatile_
                 : context.has("relaxed") ? Order::relaxed
                 : context.has("acquire") ? Order::acquire
                 : context.has("release") ? Order::release
                 : context.has("acq_rel") ? Order::acquire_release
                 : context.has("weak")    ? Order::plain
                                          : unmarked;
  result.scope = context.has("cta")       ? Scope::block
                 : context.has("cluster") ? Scope::cluster
                 : context.has("sys")     ? Scope::system
                                          : Scope::gpu;
}

void decode_address(DecodeContext& context, int operand, size_t index) {
  context.address(operand, static_cast<int>(index));
  const int bytes = context.address_bytes(operand);
  if (bytes != 4 && bytes != 8) context.unknown("width of the address");
  context.result().flags[2] = static_cast<uint8_t>(bytes);
}

}  // namespace tessera::cuda_sim
