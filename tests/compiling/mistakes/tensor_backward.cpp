// expect: compute the loss from a Variable
#include <tessera/tessera.h>
using namespace tessera;

void step(const Tensor& x) {
  Tensor loss = x.square().mean();
  loss.backward();
}
