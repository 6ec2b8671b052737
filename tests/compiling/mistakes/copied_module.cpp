// expect: write nn::clone(module)
#include <tessera/tessera.h>
using namespace tessera;

void copy(nn::Linear& layer) {
  nn::Linear other = layer;
}
