// expect: a module of nn::Sequential takes one Variable, or one Tensor
#include <tessera/tessera.h>
using namespace tessera;

struct Pair : nn::Layer<Pair> {
  Variable forward(const Variable& x, const Variable& y) { return x + y; }
};
nn::Sequential net{Pair(), nn::Linear(2, 2)};
