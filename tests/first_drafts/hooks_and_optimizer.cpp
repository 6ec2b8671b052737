// clang-format off
#include <tessera/tessera.h>
#include <cstdio>
#include <iostream>
using namespace tessera;
// PyTorch instinct: class Cube : Function { forward(ctx, x) backward(ctx, dy) }
struct Cube : autograd::Function<Cube> {
  static Variable forward(AutogradContext* ctx, Variable x) { ctx->save_for_backward({x}); return x * x * x; }
  static std::vector<Variable> backward(AutogradContext* ctx, std::vector<Variable> dy) { auto x = ctx->get_saved_variables()[0]; return {dy[0] * x * x * 3}; }
};
struct Sgd : optim::Optimizer {
  Sgd(const ParameterList& p, double lr) : Optimizer(p), lr(lr) {}
  void step() override { NoGrad g; for (auto& p : parameters()) p.variable -= lr * p.variable.grad(); }
  double lr;
};
int main() {
  nn::Linear lin({.in = 3, .out = 2});
  lin.register_forward_hook([](auto& m, auto& in, auto& out) { std::cout << out << "\n"; });
  for (auto& [name, p] : lin.named_parameters()) p.set_requires_grad(false);
  lin.weight.set_requires_grad(false);
}
