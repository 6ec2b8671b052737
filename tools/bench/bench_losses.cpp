// Activations and losses of torch.nn: milliseconds of a forward and a backward, the median of some
// repetitions, on two threads unless TESSERA_NUM_THREADS says otherwise. peer_losses.py has the same rows for
// PyTorch.
//
//     build/release/bin/bench/losses

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/activation_function.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/losses/classification.h"
#include "autograd/functions/losses/ctc_loss.h"
#include "autograd/functions/losses/regression.h"
#include "tensor/functions.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace tessera;

/// Milliseconds of forward and backward; without `dy` the result is a loss.
void time(const char* name, const std::function<Variable(const Variable&)>& function, const Tensor& values,
          const Tensor& dy = {}) {
  const Variable x = Variable::leaf(values);
  std::vector<double> forward, backward;
  for (int i = 0; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Variable y = function(x);
    const auto middle = std::chrono::steady_clock::now();
    if (dy.defined())
      y.backward(dy);
    else
      y.backward();
    const auto end = std::chrono::steady_clock::now();
    x.set_grad({});
    forward.push_back(std::chrono::duration<double, std::milli>(middle - start).count());
    backward.push_back(std::chrono::duration<double, std::milli>(end - middle).count());
  }
  std::sort(forward.begin(), forward.end());
  std::sort(backward.begin(), backward.end());
  std::printf("%-28s %8.2f %8.2f\n", name, forward[7], backward[7]);
}

}  // namespace

int main() {
  set_num_threads(2);
  manual_seed(1);
  std::printf("%-28s %8s %8s\n", "milliseconds", "forward", "backward");
  const Tensor x = randn({4096, 1024}), dy = randn({4096, 1024}), t = randn({4096, 1024});
  time(
      "leaky_relu", [](const Variable& a) { return leaky_relu(a); }, x, dy);
  time(
      "elu", [](const Variable& a) { return elu(a); }, x, dy);
  time(
      "mish", [](const Variable& a) { return mish(a); }, x, dy);
  time(
      "hardswish", [](const Variable& a) { return hardswish(a); }, x, dy);
  time(
      "softplus beta 2", [](const Variable& a) { return softplus(a, 2); }, x, dy);
  time(
      "logsigmoid", [](const Variable& a) { return logsigmoid(a); }, x, dy);
  time(
      "mse_loss", [&](const Variable& a) { return mse_loss(a, t); }, x);
  time(
      "l1_loss", [&](const Variable& a) { return l1_loss(a, t); }, x);
  time(
      "smooth_l1_loss", [&](const Variable& a) { return smooth_l1_loss(a, t); }, x);
  time(
      "huber_loss", [&](const Variable& a) { return huber_loss(a, t); }, x);
  time(
      "bce_with_logits", [&](const Variable& a) { return bce_with_logits(a, t); }, x);
  const Tensor ids = randint(0, 1024, {4096}), soft = softmax(t, -1);
  time(
      "cross_entropy", [&](const Variable& a) { return cross_entropy(a, ids); }, x);
  time(
      "cross_entropy smoothing 0.1",
      [&](const Variable& a) { return cross_entropy(a, ids, {.label_smoothing = 0.1}); }, x);
  time(
      "cross_entropy soft labels", [&](const Variable& a) { return cross_entropy(a, Variable(soft)); }, x);
  const Tensor frames = full({32}, 200, i64), lengths = full({32}, 30, i64),
               labels = randint(1, 50, {32, 30});
  time(
      "log_softmax, ctc_loss",
      [&](const Variable& a) { return ctc_loss(log_softmax(a, -1), labels, frames, lengths); },
      randn({200, 32, 50}));
}
