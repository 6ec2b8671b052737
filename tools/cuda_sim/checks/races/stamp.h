// Which threads accessed a cell, in 32 bits.
#pragma once

#include <bit>
#include <cstdint>

#include "tools/cuda_sim/machine/types.h"

namespace tessera::cuda_sim {

/// The lanes of one warp's access, as a function of the address: lane (rotation + address / bytes) mod 32. So
/// all cells of an access that is contiguous over the lanes have the same stamp, and are compared and filled
/// as one.
///
/// A stamp may instead refer to a set of accesses (`AccessSets`).
struct Stamp {
  uint32_t bits;  ///< no initial value: arrays of what has stamps are filled before use

  /// How lanes follow from the address. Up to `bytes_16`: one lane each, by the logarithm of the bytes.
  enum Layout : uint32_t {
    bytes_1 = 0,
    bytes_16 = 4,
    every_lane = 5,  ///< each lane of the warp, on its own
    operation = 6,   ///< no thread: a copy or a fill
    whole_warp = 7,  ///< the lanes together, as in ldmatrix
  };

  static constexpr uint32_t epoch_bits = 23;
  static constexpr uint32_t unknown_epoch = (1u << epoch_bits) - 1;  ///< the table is full; ordered with all
  static constexpr uint32_t set_bit = 1u << 31;

  static constexpr Stamp of(uint32_t epoch, uint32_t layout, uint32_t rotation) {
    return {epoch << 8 | layout << 5 | (rotation & 31)};
  }
  /// Of `lane`, which accesses `address` with 2^`layout` bytes.
  static constexpr Stamp of_lane(uint32_t epoch, uint32_t layout, uint32_t lane, uint64_t address) {
    return of(epoch, layout, lane - static_cast<uint32_t>(address >> layout));
  }
  static constexpr Stamp of_set(uint32_t set) { return {set_bit | set}; }
  static constexpr Stamp of_operation() { return of(0, operation, 0); }

  bool operator==(const Stamp&) const = default;
  bool is_none() const { return bits == 0; }
  bool is_set() const { return (bits & set_bit) != 0; }
  uint32_t set() const { return bits & ~set_bit; }
  uint32_t epoch() const { return (bits & ~set_bit) >> 8; }
  uint32_t layout() const { return bits >> 5 & 7; }
  uint32_t rotation() const { return bits & 31; }
  /// The lanes that accessed the bytes at `address`.
  LaneMask lanes(uint64_t address) const {
    if (layout() > bytes_16) return all_lanes;
    return 1u << ((rotation() + static_cast<uint32_t>(address >> layout())) & 31);
  }
};

}  // namespace tessera::cuda_sim
