// A user's project: a small classifier, trained with the installed package.
#include <tessera/tessera.h>

#include <cstdio>

#include "tensor/tensor.h"

using namespace tessera;

// Points of the plane, x (B, 2), to logits of two classes (B, 2).
struct Classifier : nn::Layer<Classifier> {
  nn::Linear& hidden = add<nn::Linear>("hidden", {.in = 2, .out = 32, .weight_init = init::normal(1.0)});
  nn::Linear& out = add<nn::Linear>("out", {.in = 32, .out = 2});
  Variable forward(const Variable& x) { return out(nn::relu(hidden(x))); }
};

int main() {
  // Exclusive or: class 1 where the signs of the coordinates differ, on a grid that avoids the axes.
  const Tensor side = ops::linspace(-1, 1, 16);
  const Tensor coordinates[] = {ops::repeat(side.reshape({16, 1}), {1, 16}).reshape({256, 1}),
                                ops::repeat(side.reshape({1, 16}), {16, 1}).reshape({256, 1})};
  const Tensor x = ops::cat(coordinates, 1);
  const Tensor y = ops::cast(ops::less(ops::mul(coordinates[0], coordinates[1]), 0), i64).reshape({256});

  Classifier model;
  nn::materialize(model, cpu(), /*seed=*/7);
  optim::AdamW adam(model.parameters(), {.lr = 1e-2});
  double loss_value = 0;
  for (int step = 0; step < 200; ++step) {
    const Variable loss = nn::cross_entropy(model(x), y);
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    adam.step();
    adam.zero_grad();
    loss_value = loss.value().item();
  }
  std::printf("%s, built with Tessera %s; loss %.4f\n", name_of_this_project(), TESSERA_VERSION, loss_value);
  return loss_value < 0.1 ? 0 : 1;
}
