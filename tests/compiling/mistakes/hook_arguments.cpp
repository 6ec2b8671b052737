// expect: a hook is called with these arguments: forward pre-hook
#include <tessera/tessera.h>
using namespace tessera;

void watch(nn::Linear& layer) {
  layer.register_forward_hook([](int) {});
}
