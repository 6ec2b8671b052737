// expect: write NoGradGuard guard
#include <tessera/tessera.h>
using namespace tessera;

void evaluate() {
  no_grad();
}
