// expect: the layer's forward, which is public
#include <tessera/tessera.h>
using namespace tessera;

class Net : public nn::Layer<Net> {
  Variable forward(const Variable& x) { return x * 2; }
};
Variable run(Net& net, const Variable& x) {
  return net(x);
}
