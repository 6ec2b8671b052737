#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/view.h"
#include "autograd/split_backward.h"
#include "autograd/variable.h"

using namespace tessera;

TEST_CASE("hooks: a handle works after its leaf was frozen, and after its leaf was deleted") {
  Variable x = Variable::leaf(Tensor::scalar(3.0));
  int calls = 0;
  const auto count = [&calls](const Variable&) -> Variable {
    ++calls;
    return {};
  };
  HookHandle gradient = x.register_hook(count), kept = x.register_hook(count), late = x.register_hook(count);
  HookHandle accumulated = x.register_post_accumulate_grad_hook([&calls](const Variable&) { ++calls; });
  HookHandle late_accumulated = x.register_post_accumulate_grad_hook([&calls](const Variable&) { ++calls; });
  x.set_requires_grad(false);
  gradient.remove();
  accumulated.remove();
  x.set_requires_grad(true);
  (x * x).backward();
  CHECK(calls == 3);  // the hooks that were not removed
  CHECK(x.grad().item() == 6.0);

  x = Variable();
  late.remove();
  late_accumulated.remove();
}

TEST_CASE("hooks: a gradient of another shape, dtype or device is an error that names the Variable") {
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
  const auto other_shape = [](const Variable& g) { return reshape(g, {2, 1}); };
  const auto other_dtype = [](const Variable& g) { return cast(g, f32); };
  const auto other_device = [](const Variable& g) { return Variable(g.value().to(meta())); };
  CHECK_THROWS_WITH_AS(run(w, w * w, other_shape), doctest::Contains("'blocks.0.weight'"), ShapeError);
  CHECK_THROWS_WITH_AS(run(w, w * w, other_dtype), doctest::Contains("'blocks.0.weight'"), DTypeError);
  CHECK_THROWS_WITH_AS(run(w, w * w, other_device), doctest::Contains("'blocks.0.weight'"), DeviceError);
  const Variable h = w * w;
  CHECK_THROWS_WITH_AS(run(h, h + h, other_shape), doctest::Contains("the result of 'mul'"), ShapeError);
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("hooks: an empty function is an error at once") {
  const Variable x = Variable::leaf(Tensor::from({1.0}));
  CHECK_THROWS_WITH_AS(x.register_hook({}), doctest::Contains("register_hook: expected a function"),
                       ValueError);
  CHECK_THROWS_WITH_AS(x.register_post_accumulate_grad_hook({}),
                       doctest::Contains("register_post_accumulate_grad_hook: expected a function"),
                       ValueError);
}

TEST_CASE("hooks: the two passes of a split backward call a hook once, and retain one gradient") {
  const Variable a = Variable::leaf(Tensor::scalar(2.0)), b = Variable::leaf(Tensor::scalar(3.0));
  const Variable y = a * b, z = y * 2;
  int calls = 0;
  y.register_hook([&calls](const Variable& gradient) {
    ++calls;
    return gradient * 10;
  });
  y.retain_grad();
  SplitBackward split({&z, 1});
  CHECK(split.input_gradients({&a, 1})[0].item() == 60);
  split.weight_gradients();
  CHECK(calls == 1);
  CHECK(b.grad().item() == 40);
  CHECK(y.grad().item() == 20);
}
