// expect: the layer has no forward: write `Variable forward(const Variable& x)`
#include <tessera/tessera.h>
using namespace tessera;

struct Net : nn::Layer<Net> {
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 2, .out = 2});
};
Variable run(Net& net, const Variable& x) {
  return net(x);
}
