#include "optim/gradient_squares.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
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

std::optional<double> noted(const Variable& parameter) {
  return parameter.grad().value().noted_squares();
}

/// The sum that clipping computes without GradientSquares.
double computed(const Variable& parameter) {
  const Tensor gradient = parameter.grad().value().clone();
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
  for (int i : {0, 1, 2}) CHECK_FALSE(noted(list[i].variable).has_value());
  const double norm = optim::grad_norm(list).item(), largest = optim::grad_norm(list, {.p = 1.0}).item();
  list.zero_grad();
  const optim::GradientSquares squares(list);
  loss().backward();
  for (int i : {0, 1}) CHECK(*noted(list[i].variable) == computed(list[i].variable));
  CHECK_FALSE(noted(list[2].variable).has_value());  // left to the norm
  CHECK(optim::grad_norm(list).item() == norm);
  CHECK(optim::clip_coefficient(list, 1.0).norm.item() == norm);
  CHECK(optim::grad_norm(list, {.p = 1.0}).item() == largest);
}

TEST_CASE("gradient squares: dropped as soon as the gradient changes") {
  const ParameterList list({{"a", waves(many, 0)}});
  const Variable& a = list[0].variable;
  const auto backward = [&] { sum(square(a)).backward(); };
  std::optional<optim::GradientSquares> squares(std::in_place, list);
  backward();
  const double once = *noted(a);
  CHECK(optim::grad_norm(list).item() == std::sqrt(once));
  ops::fill_(a.grad().value(), 2.0);  // not by a backward
  CHECK_FALSE(noted(a).has_value());
  CHECK(optim::grad_norm(list).item() == doctest::Approx(2 * std::sqrt(static_cast<double>(many))));
  list.zero_grad();
  backward();
  backward();  // accumulates, and is summed again
  CHECK(*noted(a) == doctest::Approx(4 * once));
  optim::clip_grad_norm(list, 0.5 * std::sqrt(once));  // changes it in place
  CHECK_FALSE(noted(a).has_value());
  CHECK(optim::grad_norm(list).item() == doctest::Approx(0.5 * std::sqrt(once)).epsilon(1e-5));
  a.set_grad(Variable(Tensor::zeros({many}, f32)));
  CHECK_FALSE(noted(a).has_value());
  list.zero_grad();
  squares.reset();
  backward();  // its hooks are gone
  CHECK_FALSE(noted(a).has_value());
}

TEST_CASE("gradient squares: of several backwards the last one is summed") {
  const ParameterList list({{"a", waves(many, 0)}});
  const Variable& a = list[0].variable;
  const optim::GradientSquares squares(list, 3);
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < 3; ++i) {
      CHECK((i == 0 || !noted(a).has_value()));
      sum(square(a)).backward();
    }
    CHECK(*noted(a) == computed(a));
    list.zero_grad();
  }
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
  CHECK(*noted(a) == computed(a) + 1);
  CHECK(optim::grad_norm(list).item() == std::sqrt(computed(a) + 1));
  then_changes = true;
  sum(square(a)).backward();
  CHECK_FALSE(noted(a).has_value());  // small, so the norm sums it
  CHECK(optim::grad_norm(list).item() == std::sqrt(computed(a)));
  hook.remove();
}

TEST_CASE("gradient squares: unscaling sums them in its pass, for any p but 2 the gradient is read") {
  const ParameterList list({{"a", waves(9001, 0)}, {"unused", waves(3, 2)}, {"b", waves(5, 1)}});
  const Variable &a = list[0].variable, &b = list[2].variable;
  optim::GradScaler scaler({.loss_scale = 48.0});
  (sum(square(a)) * 48.0 + sum(square(b)) * 48.0).backward();
  CHECK(scaler.unscale(list));
  for (const Variable& parameter : {a, b}) CHECK(*noted(parameter) == computed(parameter));
  a.grad().value().note_squares(16.0);
  b.grad().value().note_squares(9.0);
  CHECK(optim::grad_norm(list).item() == 5.0);
  CHECK(optim::grad_norm(list, {.p = 1.0}).item() > 5.0);
  CHECK(optim::grad_norm(list, {.p = std::numeric_limits<double>::infinity()}).item() <= 2.0);
}

TEST_CASE("gradient squares: views of one array have a note each, until one of them changes") {
  const Tensor all = Tensor::zeros({12}, f32);
  const Tensor first = all.narrow(0, 0, 4), second = all.narrow(0, 4, 8), inner = all.narrow(0, 4, 2);
  first.note_squares(1.0);
  second.note_squares(2.0);
  CHECK(*first.noted_squares() == 1.0);
  CHECK(*second.view({2, 4}).noted_squares() == 2.0);
  CHECK_FALSE(inner.noted_squares().has_value());  // another window
  CHECK_FALSE(all.noted_squares().has_value());
  CHECK_FALSE(all.narrow(0, 4, 0).noted_squares().has_value());
  inner.note_squares(3.0);
  CHECK(*inner.noted_squares() == 3.0);
  CHECK_FALSE(second.noted_squares().has_value());  // the last one from an address
  ops::fill_(inner, 1.0);
  for (const Tensor& view : {first, second, inner}) CHECK_FALSE(view.noted_squares().has_value());
  second.note_squares(5.0);
  CHECK(*second.noted_squares() == 5.0);
  CHECK_FALSE(first.noted_squares().has_value());
  const Tensor strided = all.view({3, 4}).transpose(0, 1);
  strided.note_squares(100.0);  // not contiguous: nothing is noted
  CHECK_FALSE(strided.noted_squares().has_value());
  const Tensor column = all.view({3, 4}).narrow(1, 0, 1);
  column.note_squares(100.0);
  CHECK_FALSE(all.narrow(0, 0, 3).noted_squares().has_value());  // other elements from the same address
  all.note_squares(7.0);
  CHECK(ops::power_sums({&strided, 1}, 2.0).item() == 2.0);  // as many from the same address, but not these
}
