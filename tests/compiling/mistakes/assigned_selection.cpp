// expect: write x.index_put_({...}, value) instead of x.index({...}) = value
#include <tessera/tessera.h>
using namespace tessera;

void clear(const Variable& x, const Tensor& ids) {
  x.index({ids}) = 0.0;
}
