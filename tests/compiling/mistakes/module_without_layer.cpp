// expect: derive from nn::Layer<Net>
#include <tessera/tessera.h>
using namespace tessera;

struct Net : nn::Module {
  Variable forward(const Variable& x) { return x * 2; }
};
Variable run(Net& net, const Variable& x) {
  return net(x);
}
