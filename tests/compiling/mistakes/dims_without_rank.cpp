// expect: write auto [B, T] = x.dims<2>()
#include <tessera/tessera.h>
using namespace tessera;

void read(const Variable& x) {
  auto [B, T] = x.shape();  // x.dims<2>()
}
