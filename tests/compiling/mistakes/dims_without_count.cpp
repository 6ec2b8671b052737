// expect: write auto [B, T, C] = x.dims<3>()
#include <tessera/tessera.h>
using namespace tessera;

void read(const Variable& x) {
  auto [B, T] = x.shape();  // x.dims<2>()
}
