// expect: requires_grad
#include <tessera/tessera.h>
using namespace tessera;

void freeze(nn::Linear& layer) {
  layer.weight.requires_grad = false;  // layer.weight.set_requires_grad(false)
}
