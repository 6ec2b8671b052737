// expect: write all(x == y).item() or allclose(x, y)
#include <tessera/tessera.h>
using namespace tessera;

bool same(const Tensor& x, const Tensor& y) {
  if (x == y) return true;
  return false;
}
