#include "tools/cuda_sim/machine/decode/constant_bank.h"

#include <cstring>

#include "tools/cuda_sim/machine/decode/names.h"

namespace tessera::cuda_sim {

Place ConstantBank::broadcast(uint64_t bits, int bytes) {
  const auto width = static_cast<size_t>(bytes);
  if (bytes < 8) bits &= (uint64_t{1} << (8 * width)) - 1;
  const auto [known, is_new] = places_.try_emplace({bytes, bits}, Place{});
  if (!is_new) return known->second;
  const size_t at = bytes_.size();
  bytes_.resize(at + round_up(width * warp_lanes, size_t{64}));
  for (size_t lane = 0; lane < warp_lanes; ++lane)
    std::memcpy(bytes_.data() + at + lane * width, &bits, width < 8 ? width : 8);
  return known->second = Place::in_constants(static_cast<uint32_t>(at));
}

Place ConstantBank::predicate(bool value) {
  return broadcast(value ? all_lanes : 0, sizeof(LaneMask));
}

}  // namespace tessera::cuda_sim
