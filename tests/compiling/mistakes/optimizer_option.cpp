// expect: AdamOptions
#include <tessera/tessera.h>
using namespace tessera;

void train(nn::Linear& layer) {
  optim::Adam adam(layer.parameters(), {.learning_rate = 1e-3});
}
