// The small types that every part of the simulated card shares.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera::cuda_sim {

/// Threads of a warp. Every register is an array of this many values.
inline constexpr int warp_lanes = 32;
inline constexpr int max_threads_per_block = 1024;
inline constexpr int max_warps_per_block = max_threads_per_block / warp_lanes;

/// Bit l stands for lane l of a warp.
using LaneMask = uint32_t;
inline constexpr LaneMask all_lanes = 0xffffffffu;

/// Extents of a grid or a block, or a position inside one.
struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

/// Types of PTX instructions (PTX ISA, "Types").
enum class Type : uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f64,
};

/// Bytes of one value; a predicate is a mask of 32 lanes and has 0.
int type_bytes(Type type);
bool is_float(Type type);
bool is_signed(Type type);
/// "f32" gives Type::f32; Type::none for a modifier that is no type.
Type type_named(std::string_view name);
std::string_view type_name(Type type);

/// Where an address points (PTX ISA, "State Spaces"). A generic address is distinguished by its window.
enum class Space : uint8_t { generic, global, shared, local, parameter, constant };

/// Memory order of an access (PTX ISA, "Memory Consistency Model"). A plain access orders nothing.
enum class Order : uint8_t { plain, volatile_, relaxed, acquire, release, acquire_release };

/// Threads between which an ordered access is strong.
enum class Scope : uint8_t { block, cluster, gpu, system };

}  // namespace tessera::cuda_sim
