// expect: takes other arguments than this call
#include <tessera/tessera.h>
using namespace tessera;

struct Net : nn::Layer<Net> {
  Variable forward(const Variable& x, const Variable& mask) { return x * mask; }
};
Variable run(Net& net, const Variable& x) {
  return net(x);
}
