#include <doctest/doctest.h>

#include "autograd/functions/arithmetic.h"
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
