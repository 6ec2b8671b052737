#include "tools/cuda_sim/machine/decode/special_registers.h"

#include <array>
#include <chrono>

#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

namespace {

constexpr std::array<std::string_view, static_cast<size_t>(SpecialRegister::count)> names = {
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%lanemask_eq",
    "%lanemask_lt",
    "%lanemask_le",
    "%lanemask_gt",
    "%lanemask_ge",
    "%dynamic_smem_size",
    "%total_smem_size",
};

// A cycle is a nanosecond here: both only ever grow.
uint64_t now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
}

template <class T, int shift>
void read_clock(Warp& warp, const Instruction& instruction) {
  const T value = static_cast<T>(now() >> shift);
  T* out = warp.values<T>(instruction.destination[0]);
  for_active_lanes(warp, [&](int lane) { out[lane] = value; });
}

}  // namespace

std::optional<Place> special_register(std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return place_of(static_cast<SpecialRegister>(i));
  return std::nullopt;
}

std::optional<uint32_t> constant_register(std::string_view name) {
  if (name == "WARP_SZ") return warp_lanes;
  // A cluster is one block.
  for (const std::string_view one :
       {"%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z", "%cluster_nctarank"})
    if (name == one) return 1;
  for (const std::string_view zero :
       {"%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z", "%cluster_ctarank",
        "%is_explicit_cluster", "%gridid", "%reserved_smem_offset_begin"})
    if (name == zero) return 0;
  return std::nullopt;
}

Execute clock_register(std::string_view name, int bytes) {
  if (name == "%clock" && bytes == 4) return read_clock<uint32_t, 0>;
  if (name == "%clock_hi" && bytes == 4) return read_clock<uint32_t, 32>;
  if ((name == "%clock64" || name == "%globaltimer") && bytes == 8) return read_clock<uint64_t, 0>;
  if (name == "%globaltimer_lo" && bytes == 4) return read_clock<uint32_t, 0>;
  if (name == "%globaltimer_hi" && bytes == 4) return read_clock<uint32_t, 32>;
  return nullptr;
}

}  // namespace tessera::cuda_sim
