#include "tensor/cpu/gemm/tiles/tile_model.h"

#include <atomic>

#include "tensor/cpu/gemm/tiles/tile_product.h"
#include "tensor/cpu/gemm/tiles/tile_registers.h"

namespace tessera::kernels::cpu {
namespace {

std::atomic<bool> is_used{false};

}  // namespace

TileModelScope::TileModelScope() {
  is_used = true;
}
TileModelScope::~TileModelScope() {
  is_used = false;
}
bool uses_tile_model() {
  return is_used.load(std::memory_order_relaxed);
}

void multiply_on_model(int64_t m, int64_t n, int64_t k, const TileRows& a, const PairPanels& b,
                       const PairTarget& target) {
  TileModel tiles;
  TileProduct<TileModel>(tiles, a, b, target, n, k).run(m);
}

}  // namespace tessera::kernels::cpu
