// expect: lr(group), set_lr(group, rate)
#include <tessera/tessera.h>
using namespace tessera;

void halve(optim::Adam& adam) {
  adam.param_groups();
}
