// expect: write push(std::move(module))
#include <tessera/tessera.h>
using namespace tessera;

void build() {
  nn::Linear layer(2, 2);
  nn::Sequential net;
  net.push(layer);
}
