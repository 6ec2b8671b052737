// expect: Variable w = Variable::leaf(tensor)
#include <tessera/tessera.h>
using namespace tessera;

Tensor weight() {
  Tensor w = randn({3, 4});
  w.requires_grad_();
  return w;
}
