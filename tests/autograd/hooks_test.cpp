#include <doctest/doctest.h>

#include "autograd/functions/arithmetic.h"
#include "autograd/functions/cast.h"
#include "autograd/functions/view.h"
#include "autograd/variable.h"

using namespace tessera;

TEST_CASE("hooks: a handle works on a leaf that was frozen since, and on one that is gone") {
  Variable x = Variable::leaf(Tensor::scalar(3.0));
  int seen = 0;
  const auto count = [&seen](const Variable&) -> Variable {
    ++seen;
    return {};
  };
  HookHandle gradient = x.register_hook(count), kept = x.register_hook(count), late = x.register_hook(count);
  HookHandle accumulated = x.register_accumulated_hook([&seen](const Variable&) { ++seen; });
  HookHandle late_accumulated = x.register_accumulated_hook([&seen](const Variable&) { ++seen; });
  x.set_requires_grad(false);
  gradient.remove();
  accumulated.remove();
  x.set_requires_grad(true);
  (x * x).backward();
  CHECK(seen == 3);  // those that were not removed are still there
  CHECK(x.grad().item() == 6.0);

  x = Variable();
  late.remove();
  late_accumulated.remove();
}

TEST_CASE("hooks: a gradient of another shape, dtype or device is refused, naming the Variable") {
  const Variable w = Variable::leaf(Tensor::from({1.0, 2.0}), "blocks.0.weight");
  const Variable dy = Tensor::from({1.0, 1.0});
  const auto run = [&](const Variable& hooked, const Variable& y, GradientHook hook) {
    HookHandle handle = hooked.register_hook(std::move(hook));
    try {
      y.backward(dy);
    } catch (...) {
      handle.remove();
      throw;
    }
    handle.remove();
  };
  const auto wider = [](const Variable& g) { return reshape(g, {2, 1}); };
  const auto narrower = [](const Variable& g) { return cast(g, f32); };
  const auto elsewhere = [](const Variable& g) { return Variable(g.value().to(meta())); };
  CHECK_THROWS_WITH_AS(run(w, w * w, wider), doctest::Contains("'blocks.0.weight'"), ShapeError);
  CHECK_THROWS_WITH_AS(run(w, w * w, narrower), doctest::Contains("'blocks.0.weight'"), DTypeError);
  CHECK_THROWS_WITH_AS(run(w, w * w, elsewhere), doctest::Contains("'blocks.0.weight'"), DeviceError);
  const Variable h = w * w;
  CHECK_THROWS_WITH_AS(run(h, h + h, wider), doctest::Contains("the result of 'mul'"), ShapeError);
  CHECK_FALSE(w.grad().defined());
}
