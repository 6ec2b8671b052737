#include "tests/first_drafts/spiral.h"

#include <doctest/doctest.h>

TEST_CASE("first drafts: a network learns noisy spirals and knows those that it has not seen") {
  Net net;
  nn::materialize(net, cpu(), 1);
  optim::Adam adam(net.parameters(), 1e-2);
  data::DataLoader loader(Spirals(1000, 1), {.batch_size = 64, .shuffle = true});
  CHECK(loader.size() == 16);
  for (int epoch = 0; epoch < 30; ++epoch) {
    int64_t examples = 0;
    for (auto& [x, y] : loader) {
      examples += x.size(0);
      adam.zero_grad();
      nn::cross_entropy(net(x), y).backward();
      adam.step();
    }
    CHECK(examples == 1000);
  }
  data::DataLoader test(Spirals(500, 2), 500);
  for (auto& [x, y] : test)
    CHECK(mean(argmax(net(x).value(), 1).eq(y).to(f32)).item() > 0.98);  // PyTorch's: 1.000
}
