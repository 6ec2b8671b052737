#include "optim/gradient_squares.h"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "optim/clip.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/training/multi_tensor.h"

using namespace tessera;

namespace {

Variable waves(int64_t n, double phase) {
  const Tensor t = Tensor::empty({n}, f32);
  for (int64_t i = 0; i < n; ++i)
    t.data<float>()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
  return Variable::parameter(t);
}

/// Elements of a list of gradients that no cache keeps.
constexpr int64_t many = (1 << 20) + 5;

/// The sum that clipping computes without GradientSquares.
double computed(const Variable& parameter) {
  const Tensor gradient = parameter.grad().value();
  return ops::power_sums({&gradient, 1}, 2.0).data<double>()[0];
}

}  // namespace

TEST_CASE("gradient squares: the bits of the sums that clipping computes, and the same norm") {
  const ParameterList list(
      {{"a", waves(many, 0)}, {"b", waves(20000, 1)}, {"few", waves(7, 2)}, {"unused", waves(3, 2)}});
  const auto loss = [&] {
    return sum(square(list[0].variable)) + sum(square(list[1].variable)) + sum(square(list[2].variable));
  };
  loss().backward();
  const double norm = optim::grad_norm(list).item();
  list.zero_grad();
  const optim::GradientSquares squares(list);
  CHECK_FALSE(squares.sum(list[0].variable).has_value());
  loss().backward();
  for (int i : {0, 1}) CHECK(*squares.sum(list[i].variable) == computed(list[i].variable));
  CHECK_FALSE(squares.sum(list[2].variable).has_value());  // left to the norm
  CHECK_FALSE(squares.sum(list[3].variable).has_value());
  CHECK_FALSE(squares.sum(waves(3, 0)).has_value());
  CHECK(optim::grad_norm(list, {.squares = &squares}).item() == norm);
  CHECK(optim::clip_coefficient(list, 1.0, {.squares = &squares}).norm.item() == norm);
  CHECK(optim::grad_norm(list, {.p = 1.0, .squares = &squares}).item() ==
        optim::grad_norm(list, {.p = 1.0}).item());
}

TEST_CASE("gradient squares: dropped as soon as the gradient changes") {
  const ParameterList list({{"a", waves(many, 0)}});
  const Variable& a = list[0].variable;
  const auto backward = [&] { sum(square(a)).backward(); };
  std::optional<optim::GradientSquares> squares(std::in_place, list);
  backward();
  const double once = *squares->sum(a);
  CHECK(optim::grad_norm(list, {.squares = &*squares}).item() == std::sqrt(once));
  ops::fill_(a.grad().value(), 2.0);  // not by a backward
  CHECK_FALSE(squares->sum(a).has_value());
  CHECK(optim::grad_norm(list, {.squares = &*squares}).item() ==
        doctest::Approx(2 * std::sqrt(static_cast<double>(many))));
  list.zero_grad();
  backward();
  backward();  // accumulates, and is summed again
  CHECK(*squares->sum(a) == doctest::Approx(4 * once));
  optim::clip_grad_norm(list, 0.5 * std::sqrt(once), {.squares = &*squares});  // changes it in place
  CHECK_FALSE(squares->sum(a).has_value());
  CHECK(optim::grad_norm(list, {.squares = &*squares}).item() ==
        doctest::Approx(0.5 * std::sqrt(once)).epsilon(1e-5));
  a.set_grad(Variable(Tensor::zeros({many}, f32)));
  CHECK_FALSE(squares->sum(a).has_value());
  a.set_grad({});
  CHECK_FALSE(squares->sum(a).has_value());
  squares.reset();
  backward();  // its hooks are gone
}

TEST_CASE("gradient squares: what a product has noted is taken, while the values are the same") {
  const ParameterList list({{"a", waves(100, 0)}});
  const Variable& a = list[0].variable;
  // A hook that runs before that of the squares, in the place of a product; wrong by 1, so that it shows.
  bool then_changes = false;
  HookHandle hook = a.register_post_accumulate_grad_hook([&](const Variable& of) {
    const Tensor gradient = of.grad().value();
    gradient.note_squares(ops::power_sums({&gradient, 1}, 2.0).item() + 1);
    if (then_changes) gradient.bump_version();
  });
  const optim::GradientSquares squares(list);
  sum(square(a)).backward();
  CHECK(*squares.sum(a) == computed(a) + 1);
  then_changes = true;
  sum(square(a)).backward();
  CHECK_FALSE(squares.sum(a).has_value());  // small, so the norm sums it
  CHECK(optim::grad_norm(list, {.squares = &squares}).item() == std::sqrt(computed(a)));
  hook.remove();
}
