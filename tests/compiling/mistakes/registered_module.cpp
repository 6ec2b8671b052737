// expect: write nn::Linear& fc = add
#include <tessera/tessera.h>
using namespace tessera;

struct Net : nn::Layer<Net> {
  Net() { register_module("fc", nn::Linear(2, 3)); }
  Variable forward(const Variable& x) { return x; }
};
