#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/elementwise/binary.h"

using namespace tessera;
using Values = std::vector<double>;

namespace {
Values values(const Variable& x) {
  const Tensor t = x.value().contiguous();
  return Values(t.data<double>(), t.data<double>() + t.numel());
}
}  // namespace

TEST_CASE("in-place: an operand that is the target, or shares its memory, is read before the change") {
  const Variable x = Variable::leaf(Tensor::scalar(3.0));
  const auto slope = [&](const std::function<void(const Variable&)>& change) {
    const Variable h = x * 1.0;
    change(h);
    return grad(h, {x})[0].item();
  };
  CHECK(slope([](const Variable& h) { mul_(h, h); }) == 6.0);
  CHECK(slope([](const Variable& h) { mul_(h, h.detach()); }) == 3.0);
  CHECK(slope([](const Variable& h) { add_(h, h); }) == 2.0);
  CHECK(slope([](const Variable& h) { add_(h, h.detach()); }) == 1.0);
  CHECK(slope([](const Variable& h) { sub_(h, h); }) == 0.0);
  CHECK(slope([](const Variable& h) { sub_(h, h.detach()); }) == 1.0);

  // Two views of the same memory.
  const Variable y = Variable::leaf(Tensor::from({2.0, 5.0})), h = y * 1.0;
  mul_(narrow(h, 0, 0, 1), narrow(h, 0, 1, 1));  // (y0 y1, y1)
  CHECK(values(grad(sum(h), {y})[0]) == Values{5.0, 2.0 + 1.0});
}

TEST_CASE("in-place: backward throws for an operation that saves what it overwrites") {
  const Variable x = Variable::leaf(Tensor::scalar(3.0)), h = x * 1.0;
  record_in_place(
      "square_", h, {h}, saved(h), [&] { ops::mul_(h.value(), h.value().clone()); },
      [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0] * s[0] * 2.0}; });
  CHECK_THROWS_WITH_AS(h.backward(), doctest::Contains("backward of 'square_'"), AutogradError);
}

TEST_CASE("in-place: a retained gradient is that of the changed values") {
  const Variable x = Variable::leaf(Tensor::scalar(3.0));
  Variable h = x * 3.0;
  h.retain_grad();
  mul_(h, 2.0);
  const Variable y = h * h;
  y.backward();
  CHECK(h.grad().item() == 2 * 18.0);
  CHECK(x.grad().item() == 2 * 18.0 * 6.0);
  h = Variable();

  const Variable g = x * 3.0;
  g.retain_grad();
  mul_(g, 2.0);
  const Variable z = g * 5.0;
  mul_(g, 7.0);
  z.backward();  // reaches values that g no longer has
  CHECK_FALSE(g.grad().defined());

  // Written through a view: the base's retained gradient moves too.
  const Variable base = x * Variable(Tensor::from({1.0, 1.0}));
  base.retain_grad();
  mul_(select(base, 0, 0), 4.0);
  sum(base * base).backward();
  CHECK(values(base.grad()) == Values{24.0, 6.0});
}

TEST_CASE("in-place: hooks and their handles move to the new history") {
  const Variable x = Variable::leaf(Tensor::scalar(3.0)), h = x * 1.0;
  std::vector<double> seen;
  HookHandle handle = h.register_hook([&](const Variable& gradient) -> Variable {
    seen.push_back(gradient.item());
    return {};
  });
  mul_(h, 2.0);
  (h * 5.0).backward({.retain_graph = true});
  CHECK(seen == Values{5.0});
  handle.remove();
  (h * 5.0).backward();
  CHECK(seen == Values{5.0});
  CHECK(x.grad().item() == 20.0);
}

TEST_CASE("in-place: a frozen leaf that becomes computed receives no more gradients as a leaf") {
  const Variable x = Variable::leaf(Tensor::scalar(3.0));
  Variable frozen = Variable::leaf(Tensor::scalar(1.0));
  const Variable earlier = frozen * 2.0;
  frozen.set_requires_grad(false);
  add_(frozen, x);
  CHECK_FALSE(frozen.is_leaf());
  earlier.backward();
  CHECK_FALSE(frozen.grad().defined());
  (frozen * 7.0).backward();
  CHECK(x.grad().item() == 7.0);
  frozen = Variable();
}
