// clang-format off
// what a PyTorch user types first
#include <tessera/tessera.h>
#include <cmath>
#include <cstdio>
using namespace tessera;

struct Spiral : data::Dataset {
  Tensor x = Tensor::zeros({1000, 2}), y = Tensor::zeros({1000}, i64);
  Spiral() {
    for (int i = 0; i < 1000; ++i) {
      int c = i % 2;
      double t = 0.5 + 3.0 * i / 1000.0 * 3.14159;
      x[i][0] = t * std::cos(t + c * 3.14159) + 0.1 * (rand() / double(RAND_MAX));
      x[i][1] = t * std::sin(t + c * 3.14159) + 0.1 * (rand() / double(RAND_MAX));
      y[i] = c;
    }
  }
  int64_t size() const override { return 1000; }
  data::Example get(int64_t i) const override { return {x[i], y[i]}; }
};

struct Net : nn::Layer<Net> {
  nn::Sequential& net = add("net", nn::Sequential{nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 2)});
  Variable forward(Variable x) { return net(x); }
};

int main() {
  Net model;
  nn::materialize(model, cpu(), /*seed=*/1);
  optim::Adam opt(model.parameters(), 1e-3);
  data::DataLoader loader(Spiral(), /*batch_size=*/64, /*shuffle=*/true);
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (auto& [x, y] : loader) {
      opt.zero_grad();
      auto loss = nn::cross_entropy(model(x), y);
      loss.backward();
      opt.step();
    }
  }
  save(model.state_dict(), "model.pt");
}
