// Forms in which programs write the cross entropy of a sequence: (B, T, C) as it is, flattened, and with the
// classes in the second dimension.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/layers/loss.h"
#include "autograd/functions/view.h"

using namespace tessera;

namespace {

Tensor scores() {
  Tensor x = Tensor::empty({2, 3, 5}, f64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = std::sin(static_cast<double>(i * i));
  return x;
}

}  // namespace

TEST_CASE("cross entropy: three logits in closed form") {
  const Variable logits = Variable::parameter(Tensor::from({1.0, 2.0, 4.0}, {1, 3}));
  const Variable loss = cross_entropy(logits, Tensor::from<int64_t>({1}));
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(4.0);
  CHECK(loss.item() == doctest::Approx(std::log(sum) - 2).epsilon(1e-12));
  loss.backward();
  const double* const gradient = logits.grad().value().data<double>();
  CHECK(gradient[0] == doctest::Approx(std::exp(1.0) / sum).epsilon(1e-12));
  CHECK(gradient[1] == doctest::Approx(std::exp(2.0) / sum - 1).epsilon(1e-12));
  CHECK(gradient[2] == doctest::Approx(std::exp(4.0) / sum).epsilon(1e-12));
}

TEST_CASE("cross entropy: of a sequence, flattened and with swapped axes: the same loss and gradient") {
  const Tensor targets = Tensor::from<int64_t>({0, 4, 2, 1, 3, 3}, {2, 3});
  const Variable plain = Variable::parameter(scores()), flat = Variable::parameter(scores()),
                 swapped = Variable::parameter(scores().transpose(1, 2).contiguous());  // (B, C, T)
  const Variable losses[] = {cross_entropy(plain, targets),
                             cross_entropy(flat.reshape({-1, 5}), targets.reshape({-1})),
                             cross_entropy(swapped.transpose(1, 2), targets)};
  for (const Variable& loss : losses) {
    CHECK(loss.item() == doctest::Approx(losses[0].item()).epsilon(1e-12));
    loss.backward();
  }
  const Tensor expected = plain.grad().value();
  CHECK(flat.grad().value().allclose(expected));
  CHECK(swapped.grad().value().transpose(1, 2).allclose(expected));
  CHECK(expected.abs().max().item() > 0.1);
}
