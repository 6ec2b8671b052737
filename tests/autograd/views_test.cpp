#include <doctest/doctest.h>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "tensor/ops/creation/creation.h"

using namespace tessera;
using Values = std::vector<double>;
using Variables = std::vector<Variable>;

namespace {

Values values(const Variable& x) {
  const Tensor t = x.value().contiguous();
  return Values(t.data<double>(), t.data<double>() + t.numel());
}

/// 0.1, -0.2, 0.3, ...
Tensor ramp(const Shape& shape, double step = 0.1) {
  Tensor x = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = static_cast<double>(i + 1) * (i % 2 ? -step : step);
  return x;
}

void check_derivatives(const CheckedFunction& function, const Variables& inputs) {
  const GradcheckResult once = gradcheck(function, inputs);
  CHECK_MESSAGE(once.passed, once.message);
  const GradcheckResult twice = gradgradcheck(function, inputs);
  CHECK_MESSAGE(twice.passed, twice.message);
}

}  // namespace

TEST_CASE("views: a recurrent network collects its outputs in a buffer") {
  constexpr int64_t steps = 4, batch = 2, width = 3;
  const auto collected = [](std::span<const Variable> v, bool in_buffer) {
    const Variable buffer = Tensor::zeros({steps, batch, width}, f64);
    Variable h = v[1];
    Variables outputs;
    for (int64_t t = 0; t < steps; ++t) {
      h = tanh(matmul(h, v[2]) + select(v[0], 0, t));
      if (in_buffer)
        add_(select(buffer, 0, t), h);
      else
        outputs.push_back(h);
    }
    return in_buffer ? buffer : stack(outputs, 0);
  };
  const Variables inputs{Variable::leaf(ramp({steps, batch, width})), Variable::leaf(ramp({batch, width})),
                         Variable::leaf(ramp({width, width}))};
  const Variable buffer = collected(inputs, true), stacked = collected(inputs, false);
  CHECK(buffer.requires_grad());
  CHECK_FALSE(buffer.is_leaf());
  CHECK(values(buffer) == values(stacked));
  const auto gradients = grad(sum(buffer * buffer), {inputs[0], inputs[1], inputs[2]});
  const auto expected = grad(sum(stacked * stacked), {inputs[0], inputs[1], inputs[2]});
  for (size_t i = 0; i < 3; ++i) CHECK(values(gradients[i]) == values(expected[i]));
  check_derivatives(
      [&](std::span<const Variable> v) {
        const Variable y = collected(v, true);
        return Variables{y * y};
      },
      inputs);
}

TEST_CASE("views: gradients follow an in-place change through every kind of view") {
  struct Kind {
    const char* name;
    std::function<Variable(const Variable&)> of;  // of (2, 3, 4)
  };
  const std::vector<Kind> kinds{
      {"select", [](const Variable& x) { return select(x, 1, -1); }},
      {"slice", [](const Variable& x) { return slice(x, 2, 1, 4, 2); }},
      {"narrow", [](const Variable& x) { return narrow(x, 1, 1, 2); }},
      {"reshape",
       [](const Variable& x) {
         return reshape(x, {6, 4});
       }},
      {"view",
       [](const Variable& x) {
         return view(x, {4, 6});
       }},
      {"flatten", [](const Variable& x) { return flatten(x, 1); }},
      {"transpose", [](const Variable& x) { return transpose(x, 0, 2); }},
      {"permute",
       [](const Variable& x) {
         return permute(x, {2, 0, 1});
       }},
      {"unsqueeze", [](const Variable& x) { return unsqueeze(x, 1); }},
      {"squeeze", [](const Variable& x) { return squeeze(narrow(x, 0, 1, 1), 0); }},
      {"a view of a view",
       [](const Variable& x) { return select(transpose(narrow(x, 1, 0, 2), 1, 2), 1, 3); }},
  };
  for (const Kind& kind : kinds) {
    CAPTURE(kind.name);
    const Shape shape = kind.of(Variable(ramp({2, 3, 4}))).shape();
    for (const bool differentiable_base : {false, true}) {
      CAPTURE(differentiable_base);
      const auto written = [&](std::span<const Variable> v) {
        const Variable base = differentiable_base ? v[0] * 2.0 : Variable(v[0].value().clone());
        const Variable window = kind.of(base), other = transpose(base, 0, 1);
        mul_(window, v[1]);
        // The base, the view, and another view that is older than the change.
        return Variables{base * base, window * window, other * v[2]};
      };
      check_derivatives(written,
                        {differentiable_base ? Variable::leaf(ramp({2, 3, 4})) : Variable(ramp({2, 3, 4})),
                         Variable::leaf(ramp(shape, 0.2)), Variable::leaf(ramp({3, 2, 4}))});
    }
  }
}

TEST_CASE("views: several views of one base, made before any was written") {
  const Variable x = Variable::leaf(Tensor::from({3.0, 5.0})), base = Tensor::zeros({2, 2}, f64);
  const Variable first = select(base, 0, 0), second = select(base, 0, 1), column = select(base, 1, 0),
                 wide = expand(unsqueeze(first, 0), {3, 2});
  CHECK_FALSE(column.requires_grad());
  add_(first, x);
  CHECK(column.requires_grad());
  CHECK_FALSE(column.is_leaf());
  add_(second, x * 2.0);
  CHECK(values(base) == Values{3, 5, 6, 10});
  CHECK(values(grad(sum(column), {x}, {.retain_graph = true})[0]) == Values{3, 0});
  CHECK(values(grad(sum(second), {x}, {.retain_graph = true})[0]) == Values{2, 2});
  CHECK(values(grad(sum(wide), {x}, {.retain_graph = true})[0]) == Values{3, 3});
  CHECK(values(grad(sum(base * base), {x})[0]) == Values{2 * 3 + 4 * 6, 2 * 5 + 4 * 10});
}

TEST_CASE("views: an in-place change of the base reaches its views") {
  const Variable x = Variable::leaf(Tensor::from({2.0, 3.0, 4.0})), y = Variable::leaf(ramp({3}));
  const Variable base = x * 1.0, tail = narrow(base, 0, 1, 2);
  mul_(base, y);
  CHECK(values(grad(sum(tail), {x}, {.retain_graph = true})[0]) == Values{0, -0.2, 0.1 * 3});
  CHECK(values(grad(sum(tail), {y})[0]) == Values{0, 3, 4});
}

TEST_CASE("views: a base of any strides") {
  const Tensor storage = ramp({4, 6});
  for (const Tensor& base_of : {storage.transpose(0, 1), storage.slice(1, 1, 6, 2), storage.narrow(0, 1, 2)})
    check_derivatives(
        [&](std::span<const Variable> v) {
          const Tensor own = storage.clone();
          const Variable base = own.as_strided(base_of.shape(), base_of.strides(), base_of.offset());
          mul_(select(base, 0, 1), v[0]);
          return Variables{base * base};
        },
        {Variable::leaf(ramp({base_of.size(1)}, 0.3))});
}

TEST_CASE("views: backward throws for a saved value that an in-place change overwrote") {
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0})), base = Tensor::zeros({2, 2}, f64);
  const Variable first = select(base, 0, 0);
  add_(first, x);
  const Variable square = first * first;
  add_(select(base, 0, 1), x);  // base and views share one version
  CHECK_THROWS_WITH_AS(sum(square).backward(), doctest::Contains("was changed in place since"),
                       AutogradError);
}

TEST_CASE("views: in-place changes that are errors") {
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0})), base = Tensor::zeros({2, 2}, f64);
  CHECK_THROWS_WITH_AS(add_(narrow(x, 0, 0, 1), narrow(x, 0, 1, 1)),
                       doctest::Contains("is a view of the leaf"), AutogradError);
  const Variable unrecorded = [&] {
    NoGrad no_grad;
    return select(base, 0, 0);
  }();
  CHECK_THROWS_WITH_AS(add_(unrecorded, x), doctest::Contains("made under NoGrad"), AutogradError);
  CHECK_THROWS_WITH_AS(add_(narrow(unrecorded, 0, 0, 1), narrow(x, 0, 0, 1)),
                       doctest::Contains("made under NoGrad"), AutogradError);
  CHECK_THROWS_WITH_AS(add_(split(base, Shape{1, 1}, 0)[0], x), doctest::Contains("several results"),
                       AutogradError);
  CHECK_THROWS_AS(add_(expand(Variable(Tensor::zeros({1}, f64)), {2}), x), Error);
  CHECK_FALSE(base.requires_grad());
  CHECK(values(base) == Values{0, 0, 0, 0});
  // Constants, and anything while nothing is recorded.
  CHECK_NOTHROW(add_(unrecorded, Variable(Tensor::from({1.0, 1.0}))));
  NoGrad no_grad;
  CHECK_NOTHROW(add_(select(base, 0, 1), x));
  CHECK_FALSE(base.requires_grad());
  CHECK(values(base) == Values{1, 1, 1, 2});
}

TEST_CASE("views: changing one made under NoGrad of a differentiable base is an error while recording") {
  const Variable leaf = Variable::leaf(Tensor::from({1.0, 2.0})), base = leaf * 1.0;
  const Variable factor(Tensor::from({3.0}));
  const auto unrecorded = [](const auto& made) {
    NoGrad no_grad;
    return made();
  };
  const auto window = [](const Variable& x) { return narrow(x, 0, 0, 1); };
  const Variable of_computed = unrecorded([&] { return window(base); });
  const std::vector<Variable> refused{
      of_computed,
      unrecorded([&] { return window(leaf); }),
      unrecorded([&] {
        return split(base, Shape{1, 1}, 0)[0];
      }),
      unrecorded([&] { return view(of_computed, {1}); }),
      view(of_computed, {1}),
      unrecorded([&] { return view(window(base), {1}); }),
  };
  for (const Variable& x : refused) {
    CHECK_FALSE(x.requires_grad());
    const auto message = doctest::Contains("made under NoGrad");
    CHECK_THROWS_WITH_AS(mul_(x, 3.0), message, AutogradError);
    CHECK_THROWS_WITH_AS(mul_(x, factor), message, AutogradError);
    CHECK_THROWS_WITH_AS(add_(x, factor), message, AutogradError);
    CHECK_THROWS_WITH_AS(sub_(x, factor), message, AutogradError);
    CHECK_THROWS_WITH_AS(add_(x, window(leaf)), message, AutogradError);
  }
  CHECK(base.impl()->use_count() == 1);  // no view holds the graph
  CHECK(values(base) == Values{1, 2});

  // Inside NoGrad, through a detached alias, and where the base is a constant.
  unrecorded([&] { mul_(of_computed, 3.0); });
  mul_(of_computed.detach(), 3.0);
  mul_(window(base.detach()), 3.0);
  mul_(unrecorded([&] { return window(base.detach()); }), 3.0);
  CHECK(values(base) == Values{81, 2});
  CHECK(values(grad(sum(base), {leaf})[0]) == Values{1, 1});

  // A view of a constant that another view made differentiable.
  const Variable buffer = Tensor::zeros({2, 2}, f64), row = select(buffer, 0, 0);
  add_(select(buffer, 0, 0), leaf);
  const Variable of_row = unrecorded([&] { return window(row); });
  CHECK_THROWS_WITH_AS(mul_(of_row, 3.0), doctest::Contains("made under NoGrad"), AutogradError);
}

TEST_CASE("views: a base whose values were replaced has another storage") {
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0})), base = Tensor::zeros({2, 2}, f64);
  const Variable first = select(base, 0, 0);
  base.set_value(Tensor::zeros({3}, f64));
  add_(first, x);
  CHECK(base.is_leaf());
  CHECK_FALSE(base.requires_grad());
  CHECK(values(grad(sum(first), {x})[0]) == Values{1, 1});
}

TEST_CASE("views: set_requires_grad(true) makes a view an independent leaf") {
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0})), base = Tensor::zeros({2, 2}, f64);
  const Variable leaf = select(base, 0, 0);
  leaf.set_requires_grad(true);
  add_(select(base, 0, 1), x);
  CHECK(leaf.is_leaf());
  sum(leaf * x).backward();
  CHECK(values(leaf.grad()) == Values{1, 2});
}

TEST_CASE("views: the gradient of a base contains what flows through a view of it that was written") {
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0, 3.0, 4.0})), base = reshape(x, {2, 2}) * 1.0;
  const Variable row = select(base, 0, 0);
  mul_(row, 2.0);
  base.retain_grad();
  double hooked = 0;
  base.register_hook([&](const Variable& g) {
    hooked += sum(g).item();
    return Variable();
  });
  CHECK(values(grad(sum(row * row), {base}, {.retain_graph = true})[0]) == Values{4, 8, 0, 0});
  sum(row * row).backward();
  CHECK(values(base.grad()) == Values{8, 16, 0, 0});  // that of grad(), and this one
  CHECK(hooked == 24);
  CHECK(values(x.grad()) == Values{8, 16, 0, 0});

  // Again, and the rest of the base too.
  const Variable y = Variable::leaf(Tensor::from({1.0, 2.0})), b = y * 1.0, v = select(b, 0, 0);
  mul_(v, 3.0);
  mul_(v, v);
  CHECK(values(grad(sum(b) + v, {y})[0]) == Values{36, 1});
}
