#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/gemm/pairs/gemm_bf16_kernels.h"

namespace tessera::kernels::cpu {

/// Whether this processor has tiles, the limit on instruction sets allows them, and the system has given this
/// process their registers (asked for once: arch_prctl, ARCH_REQ_XCOMP_PERM).
bool multiplies_bf16_tiles();

/// `multiply_tiles` on the processor's tiles.
void multiply_on_registers(int64_t m, int64_t n, int64_t k, const TileRows& a, const PairPanels& b,
                           const PairTarget& target);

/// While one lives, the tiles of its thread stay configured from one product to the next: configuring and
/// releasing them takes as long as 200 KFLOP of a product. No other code of that thread may use tiles
/// meanwhile. Scopes may be nested.
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

/// While one lives, bf16 products run on a model of the tiles (tile_model.h), on any processor and far
/// slower: for tests. Not for several threads at once.
class TileModelScope {
 public:
  TileModelScope();
  ~TileModelScope();
  TileModelScope(const TileModelScope&) = delete;
  TileModelScope& operator=(const TileModelScope&) = delete;
};
/// Whether there is such a scope.
bool uses_tile_model();
void multiply_on_model(int64_t m, int64_t n, int64_t k, const TileRows& a, const PairPanels& b,
                       const PairTarget& target);

}  // namespace tessera::kernels::cpu
