// The product on the processor's tiles. The instructions are written out: the compiler then uses no others
// that a processor without tiles may lack, and the tiles' numbers can be template arguments.
#include "tensor/cpu/gemm/tiles/tile_registers.h"

#include "tensor/cpu/gemm/tiles/tile_product.h"
#include "tensor/cpu/isa.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

namespace tessera::kernels::cpu {
namespace {

/// How the tiles of a thread are configured.
struct Configured {
  TileShapes shapes;
  bool is_set = false;
  int scopes = 0;

  void set(const TileShapes& next) {
    if (is_set && shapes == next) return;
    asm volatile("ldtilecfg %0" : : "m"(next));
    shapes = next;
    is_set = true;
  }
  /// A thread's change would else save 8 KiB.
  void release() {
    if (is_set) asm volatile("tilerelease");
    is_set = false;
  }
};
thread_local constinit Configured configured;

/// The processor's tiles; their numbers are part of the instructions.
class TileRegisters {
 public:
  ~TileRegisters() {
    if (configured_.scopes == 0) configured_.release();
  }
  void configure(const TileShapes& shapes) { configured_.set(shapes); }
  template <int t>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
  template <int t>
  void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  void store(void* to, int64_t stride) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(t) : "memory");
  }
  template <int c, int a, int b>
  void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
  static void store_sums(const PairSums& block, int64_t begin, int64_t end) {
    cpu::store_sums(block, begin, end);
  }

 private:
  Configured& configured_ = configured;
};

bool ask_for_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

bool multiplies_bf16_tiles() {
  if (current_isa() < Isa::amx) return false;
  static const bool granted = ask_for_tiles();
  return granted;
}

TileScope::TileScope() {
  ++configured.scopes;
}
TileScope::~TileScope() {
  if (--configured.scopes == 0) configured.release();
}

void multiply_on_registers(int64_t m, int64_t n, int64_t k, const TileRows& a, const PairPanels& b,
                           const PairTarget& target) {
  TileRegisters tiles;
  TileProduct<TileRegisters>(tiles, a, b, target, n, k).run(m);
  if (target.streams) asm volatile("sfence" ::: "memory");  // before another thread reads c
}

}  // namespace tessera::kernels::cpu

#else

namespace tessera::kernels::cpu {

bool multiplies_bf16_tiles() {
  return false;
}
TileScope::TileScope() = default;
TileScope::~TileScope() = default;
void multiply_on_registers(int64_t, int64_t, int64_t, const TileRows&, const PairPanels&, const PairTarget&) {
}

}  // namespace tessera::kernels::cpu

#endif
