// expect: derive from nn::Layer<Net>; (*net[0].as<nn::Linear>())(x)
#include <tessera/tessera.h>
using namespace tessera;

Variable first(nn::Sequential& net, const Variable& x) {
  return net[0](x);
}
