#include "optim/gradient_squares.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/arithmetic.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/unary.h"
#include "optim/clip.h"
#include "tensor/ops/multi_tensor.h"

using namespace tessera;

namespace {

Variable waves(int64_t n, double phase) {
  const Tensor t = Tensor::empty({n}, f32);
  for (int64_t i = 0; i < n; ++i)
    t.data<float>()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
  return Variable::parameter(t);
}

/// The sum that clipping computes without GradientSquares.
double computed(const Variable& parameter) {
  const Tensor gradient = parameter.grad().value();
  return ops::power_sums({&gradient, 1}, 2.0).data<double>()[0];
}

}  // namespace

TEST_CASE("gradient squares: the bits of the sums that clipping computes, and the same norm") {
  const ParameterList list({{"a", waves(20000, 0)}, {"b", waves(7, 1)}, {"unused", waves(3, 2)}});
  const auto loss = [&] { return sum(square(list[0].variable)) + sum(square(list[1].variable)); };
  loss().backward();
  CHECK_FALSE(optim::gradient_squares(list[0].variable).has_value());
  const double norm = optim::grad_norm(list).item();
  list.zero_grad();
  {
    const optim::GradientSquares squares(list);
    loss().backward();
  }
  for (int i : {0, 1}) CHECK(*optim::gradient_squares(list[i].variable) == computed(list[i].variable));
  CHECK_FALSE(optim::gradient_squares(list[2].variable).has_value());
  CHECK(optim::grad_norm(list).item() == norm);
}

TEST_CASE("gradient squares: dropped as soon as the gradient changes") {
  const ParameterList list({{"a", waves(100, 0)}});
  const Variable& a = list[0].variable;
  const auto backward = [&] { sum(square(a)).backward(); };
  {
    const optim::GradientSquares squares(list);
    backward();
  }
  const double once = *optim::gradient_squares(a), norm = optim::grad_norm(list).item();
  backward();  // accumulates, without GradientSquares
  CHECK_FALSE(optim::gradient_squares(a).has_value());
  CHECK(optim::grad_norm(list).item() == doctest::Approx(2 * norm));
  {
    const optim::GradientSquares squares(list);
    backward();
  }
  CHECK(*optim::gradient_squares(a) == doctest::Approx(9 * once));
  optim::clip_grad_norm(list, 0.5 * norm);  // changes it in place
  CHECK_FALSE(optim::gradient_squares(a).has_value());
  CHECK(optim::grad_norm(list).item() == doctest::Approx(0.5 * norm).epsilon(1e-5));
  a.set_grad({});
  CHECK_FALSE(optim::gradient_squares(a).has_value());
}
