// expect: in_features
#include <tessera/tessera.h>
using namespace tessera;

void build() {
  nn::Linear layer({.in_features = 2, .out_features = 4});
}
