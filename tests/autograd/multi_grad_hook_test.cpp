#include "autograd/hooks/multi_grad_hook.h"

#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "autograd/record.h"

using namespace tessera;
using autograd::MultiGradMode;
using autograd::register_multi_grad_hook;

namespace {

using List = std::vector<Variable>;

Variable leaf(double value) {
  return Variable::leaf(Tensor::scalar(value));
}

/// The gradients of each call; -1 for an undefined one.
struct Calls {
  std::vector<std::vector<double>> list;
  autograd::MultiGradHook hook() {
    return [this](const List& gradients) {
      list.emplace_back();
      for (const Variable& gradient : gradients)
        list.back().push_back(gradient.defined() ? gradient.item() : -1);
    };
  }
};
using Expected = std::vector<std::vector<double>>;

}  // namespace

TEST_CASE("multi-gradient hook: called once a backward, with the summed gradients of leaves and results") {
  const Variable a = leaf(2), b = leaf(3), c = a * b, d = leaf(5);
  Calls all, any;
  register_multi_grad_hook({a, c, b}, all.hook());
  register_multi_grad_hook({a, c, b}, any.hook(), MultiGradMode::any);
  const Variable y = c * a + c;  // dc = a + 1, da = b dc + c, db = a dc
  y.backward({.retain_graph = true});
  CHECK(all.list == Expected{{15, 3, 6}});
  CHECK(any.list == Expected{{-1, 3, -1}});  // that of c arrives first
  y.backward({.retain_graph = true});
  CHECK(all.list == Expected{{15, 3, 6}, {15, 3, 6}});
  CHECK(any.list.size() == 2);
  (d * 2.0).backward();
  CHECK(all.list.size() == 2);
}

TEST_CASE("multi-gradient hook: what a backward does not reach is undefined") {
  const Variable a = leaf(2), b = leaf(3), c = leaf(4);
  Calls all, any;
  HookHandle handle = register_multi_grad_hook({a, b, c}, all.hook());
  register_multi_grad_hook({a, b, c}, any.hook(), MultiGradMode::any);
  (a * c).backward();
  CHECK(all.list == Expected{{4, -1, 2}});
  CHECK(any.list.size() == 1);
  const Variable y = a * b * c;
  grad(List{y}, List{b}, {}, {.retain_graph = true});
  CHECK(all.list.back() == std::vector<double>{-1, 8, -1});
  backward(List{y}, {}, {.retain_graph = true}, List{a, c});
  CHECK(all.list.back() == std::vector<double>{12, -1, 6});
  CHECK(all.list.size() == 3);
  handle.remove();
  handle.remove();
  y.backward();
  CHECK(all.list.size() == 3);
  CHECK(any.list.size() == 4);
}

TEST_CASE("multi-gradient hook: is called before the backward ends, and follows in-place changes") {
  const Variable a = leaf(2), b = leaf(3);
  const Variable y = a * 2.0;
  std::string order;
  a.register_hook([&](const Variable&) -> Variable {
    order += "a ";
    return {};
  });
  register_multi_grad_hook({y, b}, [&](const List& gradients) {
    order += "both ";
    CHECK(gradients[0].item() == 3);
    CHECK(gradients[1].item() == 5);
  });
  y.add_(1.0);  // y = 5
  (y * b).backward();
  CHECK(order == "both a ");
}

TEST_CASE("multi-gradient hook: a rule without a gradient delays the call to the end") {
  const Variable a = leaf(2), b = leaf(3);
  Calls all;
  register_multi_grad_hook({a, b}, all.hook());
  const Variable y = record("first_only", Tensor::scalar(1.0), {a, b}, saved(),
                            [](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                              return {dy[0], Variable()};
                            });
  y.backward();
  CHECK(all.list == Expected{{1, -1}});
}

TEST_CASE("multi-gradient hook: a backward inside of a hook has calls of its own") {
  const Variable a = leaf(2), b = leaf(3);
  Calls all;
  register_multi_grad_hook({a, b}, all.hook());
  const Variable y = a * b;
  bool inside = false;
  y.register_hook([&](const Variable&) -> Variable {
    const EnableGrad enable_grad;
    if (!std::exchange(inside, true)) (a * b * 10.0).backward();
    return {};
  });
  y.backward();
  CHECK(all.list == Expected{{30, 20}, {3, 2}});
}

TEST_CASE("multi-gradient hook: wrong arguments") {
  const Variable a = leaf(2), constant = Tensor::scalar(1.0);
  const auto hook = [](const List&) {};
  CHECK_THROWS_WITH_AS(register_multi_grad_hook({a, constant}, hook), doctest::Contains("Variable 1"),
                       AutogradError);
  CHECK_THROWS_WITH_AS(register_multi_grad_hook({}, hook), doctest::Contains("at least one"), ValueError);
  CHECK_THROWS_WITH_AS(register_multi_grad_hook({a}, nullptr), doctest::Contains("empty"), ValueError);
}
