// expect: takes other arguments than this call
#include <tessera/tessera.h>
using namespace tessera;

struct Pair : nn::Layer<Pair> {
  Variable forward(const Variable& x, const Variable& y) { return x + y; }
};
Variable run(nn::ModuleList<Pair>& pairs, const Variable& x) {
  return pairs(x);
}
