// expect: write x.index({tensor}) to read, x.index_put_({tensor}, value) to write
#include <tessera/tessera.h>
using namespace tessera;

void clear(const Variable& x, const Tensor& mask) {
  x[mask];
}
