#include "autograd/functional/custom_function.h"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "autograd/debug/gradcheck.h"
#include "autograd/debug/graph_dot.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "autograd/graph/node.h"
#include "autograd/graph/saving_policy.h"
#include "autograd/recompute/checkpoint.h"
#include "autograd/split_backward.h"
#include "tensor/ops/elementwise/unary.h"

using namespace tessera;

namespace {

struct Cube : autograd::Function<Cube> {
  static Variable forward(AutogradContext* ctx, Variable x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static std::vector<Variable> backward(AutogradContext* ctx, std::vector<Variable> dy) {
    auto x = ctx->get_saved_variables()[0];
    return {dy[0] * x * x * 3};
  }
};

/// scale * x @ w, with a scale that is not a Variable, and its mean absolute value, which is not
/// differentiable.
struct ScaledProduct : autograd::Function<ScaledProduct> {
  static constexpr const char* name = "scaled_product";
  static std::vector<Variable> forward(AutogradContext* ctx, const Variable& x, double scale,
                                       const Variable& w) {
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["rows"] = x.size(0);
    ctx->save_for_backward({x, w});
    const Variable y = matmul(x, w) * scale;
    const Variable size = mean(abs(y));
    ctx->mark_non_differentiable({size});
    return {y, size};
  }
  static std::vector<Variable> backward(AutogradContext* ctx, std::vector<Variable> dy) {
    CHECK(dy.size() == 2);
    CHECK(dy[1].item() == 0);  // the gradient of what is not differentiable
    CHECK(ctx->saved_data["rows"].to<int>() == dy[0].size(0));
    CHECK_FALSE(ctx->needs_input_grad(1));
    const double scale = ctx->saved_data["scale"].to<double>();
    const Variable x = ctx->saved(0), w = ctx->saved(1);
    std::vector<Variable> gradients(3);
    if (ctx->needs_input_grad(0)) gradients[0] = matmul(dy[0], transpose(w, 0, 1)) * scale;
    if (ctx->needs_input_grad(2)) gradients[2] = matmul(transpose(x, 0, 1), dy[0]) * scale;
    return gradients;
  }
};

/// The sum of a list, and its product with a factor.
struct SumOfList : autograd::Function<SumOfList> {
  static Variable forward(AutogradContext*, const std::vector<Variable>& list, const Variable& factor) {
    Variable total = list[0];
    for (size_t i = 1; i < list.size(); ++i) total = total + list[i];
    return total + factor;
  }
  static std::vector<Variable> backward(AutogradContext*, std::vector<Variable> dy) {
    return {dy[0], dy[0], dy[0], dy[0]};
  }
};

struct OnceSquare : autograd::Function<OnceSquare> {
  static constexpr bool once_differentiable = true;
  static Variable forward(AutogradContext* ctx, const Variable& x) {
    ctx->save(x);
    return x * x;
  }
  static Variable backward(AutogradContext* ctx, const std::vector<Variable>& dy) {
    return dy[0] * ctx->saved(0) * 2;
  }
};

/// exp(x) from its own result.
const auto own_exp = autograd::function(
    "own_exp",
    [](autograd::Context& ctx, const Variable& x) {
      const Variable y = exp(x);
      ctx.save(y);
      return y;
    },
    [](autograd::Context& ctx, const Variable& dy) { return dy * ctx.saved(0); });

/// x unchanged, with the negative gradient (Ganin and Lempitsky, 2015).
const auto reverse_gradient = autograd::function(
    "reverse_gradient", [](autograd::Context&, const Variable& x) { return x; },
    [](autograd::Context&, const Variable& dy) { return -dy; });

Variable values(std::initializer_list<double> list) {
  return Variable::leaf(Tensor::from(list));
}

void check_values(const Variable& x, std::initializer_list<double> expected) {
  REQUIRE(x.numel() == static_cast<int64_t>(expected.size()));
  const Tensor flat = x.value().contiguous();
  int64_t i = 0;
  for (double e : expected) CHECK(flat.data<double>()[i++] == doctest::Approx(e).epsilon(1e-14));
}

}  // namespace

TEST_CASE("custom function: a class with static forward and backward") {
  const Variable x = values({1, 2, -3});
  const Variable y = Cube::apply(x);
  check_values(y, {1, 8, -27});
  CHECK(y.requires_grad());
  CHECK_FALSE(y.is_leaf());
  CHECK(std::string(y.node()->name()) == "Cube");
  sum(y).backward();
  check_values(x.grad(), {3, 12, 27});

  const Variable constant = Cube::apply(Tensor::from({2.0}));
  CHECK(constant.item() == 8);
  CHECK_FALSE(constant.requires_grad());
  {
    NoGrad no_grad;
    CHECK_FALSE(Cube::apply(x).requires_grad());
  }
}

TEST_CASE("custom function: two lambdas") {
  const auto cube = autograd::function(
      "cube",
      [](autograd::Context& ctx, const Variable& x) {
        ctx.save(x);
        return x * x * x;
      },
      [](autograd::Context& ctx, const Variable& dy) {
        const Variable x = ctx.saved(0);
        return dy * x * x * 3;
      });
  const Variable x = values({1, 2, -3});
  const Variable y = cube(x);
  CHECK(std::string(y.node()->name()) == "cube");
  sum(y).backward();
  check_values(x.grad(), {3, 12, 27});
}

TEST_CASE("custom function: first and second derivatives against finite differences") {
  const Variable x = values({0.5, -1.25, 2}),
                 w = Variable::leaf(Tensor::from({0.3, -0.7, 1.1, 0.2, 0.9, -0.4}, {3, 2}));
  const Variable m = Variable::leaf(Tensor::from({1.0, 2.0, -1.0, 0.5, 0.25, -2.0}, {2, 3}));
  const auto check = [](const CheckedFunction& f, const std::vector<Variable>& inputs) {
    const GradcheckResult first = gradcheck(f, inputs), second = gradgradcheck(f, inputs);
    CHECK_MESSAGE(first.passed, first.message);
    CHECK_MESSAGE(second.passed, second.message);
  };
  check([](std::span<const Variable> in) -> std::vector<Variable> { return {Cube::apply(in[0])}; }, {x});
  check([](std::span<const Variable> in) -> std::vector<Variable> { return {own_exp(in[0])}; }, {x});
  check(
      [](std::span<const Variable> in) -> std::vector<Variable> {
        return {ScaledProduct::apply(in[0], 1.5, in[1])[0]};
      },
      {m, w});
  // Between other operations, and with one input that needs no gradient.
  check(
      [](std::span<const Variable> in) -> std::vector<Variable> {
        return {tanh(own_exp(sin(in[0])) * Cube::apply(in[0]))};
      },
      {x});
  check(
      [](std::span<const Variable> in) -> std::vector<Variable> {
        return {ScaledProduct::apply(in[0], 2, in[1])[0]};
      },
      {m.detach(), w});
}

TEST_CASE("custom function: the third derivative") {
  const Variable x = values({2});
  const Variable first = grad(sum(Cube::apply(x)), {x}, {.create_graph = true})[0];
  const Variable second = grad(sum(first), {x}, {.create_graph = true})[0];
  const Variable third = grad(sum(second), {x})[0];
  CHECK(first.item() == 12);
  CHECK(second.item() == 12);
  CHECK(third.item() == 6);
}

TEST_CASE("custom function: an output that is saved has its history, also when it is saved as a Tensor") {
  const auto from_tensor = autograd::function(
      "from_tensor",
      [](autograd::Context& ctx, const Variable& x) {
        const Tensor y = ops::exp(x.value());
        ctx.save(y);
        return y;
      },
      [](autograd::Context& ctx, const Variable& dy) { return dy * ctx.saved(0); });
  const Variable x = values({0.5});
  const Variable first = grad(from_tensor(x), {x}, {.create_graph = true})[0];
  CHECK(grad(first, {x})[0].item() == doctest::Approx(std::exp(0.5)));
}

TEST_CASE("custom function: several outputs, arguments of other types, non-differentiable outputs") {
  const Variable x = Variable::leaf(Tensor::from({1.0, 2.0}, {1, 2}));
  const Variable w = Variable::leaf(Tensor::from({3.0, 4.0}, {2, 1}));
  const std::vector<Variable> y = ScaledProduct::apply(x, 0.5, w);
  REQUIRE(y.size() == 2);
  CHECK(y[0].item() == 5.5);
  CHECK(y[1].item() == 5.5);
  CHECK(y[0].requires_grad());
  CHECK_FALSE(y[1].requires_grad());
  CHECK(std::string(y[0].node()->name()) == "scaled_product");
  y[0].backward();
  check_values(x.grad(), {1.5, 2});
  check_values(w.grad(), {0.5, 1});
}

TEST_CASE("custom function: a list of inputs") {
  const Variable a = values({1}), b = values({2}), c = values({3}), factor = values({4});
  const Variable y = SumOfList::apply(std::vector<Variable>{a, b, c}, factor);
  CHECK(y.item() == 10);
  y.backward();
  for (const Variable& x : {a, b, c, factor}) CHECK(x.grad().item() == 1);
}

TEST_CASE("custom function: needs_input_grad in forward and backward") {
  std::vector<bool> forward, backward;
  const auto product = autograd::function(
      "product",
      [&](autograd::Context& ctx, const Variable& a, const Variable& b) {
        forward = {ctx.needs_input_grad(0), ctx.needs_input_grad(1)};
        CHECK_THROWS_WITH_AS(ctx.needs_input_grad(2), doctest::Contains("argument 2 of 2"), IndexError);
        ctx.save_for_backward({a, b});
        return a * b;
      },
      [&](autograd::Context& ctx, const Variable& dy) -> std::vector<Variable> {
        backward = {ctx.needs_input_grad(0), ctx.needs_input_grad(1)};
        return {dy * ctx.saved(1), dy * ctx.saved(0)};
      });
  const Variable a = values({2}), b = values({3});
  const Variable y = product(a, b);
  CHECK(forward == std::vector<bool>{true, true});
  CHECK(grad(y, {b})[0].item() == 2);
  CHECK(backward == std::vector<bool>{false, true});
  product(a, b.detach()).backward();
  CHECK(forward == std::vector<bool>{true, false});
  CHECK(backward == std::vector<bool>{true, false});
  CHECK(a.grad().item() == 3);
  NoGrad no_grad;
  product(a, b);
  CHECK(forward == std::vector<bool>{false, false});
}

TEST_CASE("custom function: gradients of unused outputs are zeros, or undefined") {
  std::vector<bool> defined;
  bool materialize = true;
  const auto pair = autograd::function(
      "pair",
      [&](autograd::Context& ctx, const Variable& x) -> std::vector<Variable> {
        ctx.set_materialize_grads(materialize);
        return {x + x, x * x};
      },
      [&](autograd::Context&, const std::vector<Variable>& dy) {
        defined = {dy[0].defined(), dy[1].defined()};
        if (dy[1].defined()) CHECK(dy[1].shape() == Shape{2});
        return dy[0] * 2;
      });
  const Variable x = values({1, 2});
  sum(pair(x)[0]).backward();
  CHECK(defined == std::vector<bool>{true, true});
  materialize = false;
  sum(pair(x)[0]).backward();
  CHECK(defined == std::vector<bool>{true, false});
  check_values(x.grad(), {4, 4});
}

TEST_CASE("custom function: an undefined gradient is zero") {
  const auto straight = autograd::function(
      "stop", [](autograd::Context&, const Variable& x) { return x * 2; },
      [](autograd::Context&, const Variable&) { return Variable(); });
  const Variable x = values({1});
  (straight(x) + x).backward();
  CHECK(x.grad().item() == 1);
}

TEST_CASE("custom function: gradients of another dtype are converted") {
  const auto in_f64 = autograd::function(
      "in_f64", [](autograd::Context&, const Variable& x) { return cast(x, f64) * 2; },
      [](autograd::Context&, const Variable& dy) { return dy * 2; });
  const Variable x = Variable::leaf(Tensor::from({1.0f}));
  const Variable g = grad(in_f64(x * 3), {x})[0];
  CHECK(g.dtype() == f32);
  CHECK(g.item() == 6);
  in_f64(x).backward();
  CHECK(x.grad().dtype() == f32);
}

TEST_CASE("custom function: errors of the gradients name the function") {
  const auto with = [](std::vector<Variable> gradients) {
    const auto f = autograd::function(
        "wrong", [](autograd::Context&, const Variable& x, int) { return x * 2; },
        [gradients](autograd::Context&, const Variable&) { return gradients; });
    f(values({1, 2}), 3).backward(Tensor::from({1.0, 1.0}));
  };
  const Variable good = Tensor::from({1.0, 1.0});
  CHECK_THROWS_WITH_AS(with({good}), doctest::Contains("backward of 'wrong' returned 1 gradients for 2"),
                       AutogradError);
  CHECK_THROWS_WITH_AS(with({good, good}), doctest::Contains("argument 1, which is not a Variable"),
                       AutogradError);
  CHECK_THROWS_WITH_AS(with({Tensor::from({1.0}), {}}),
                       doctest::Contains("'wrong' returned a gradient of shape"), ShapeError);
  CHECK_THROWS_WITH_AS(with({Tensor::from({int64_t(1), int64_t(1)}), {}}), doctest::Contains("'wrong'"),
                       DTypeError);
  CHECK_NOTHROW(with({good, {}}));
}

TEST_CASE("custom function: errors of the forward") {
  const auto in_place = autograd::function(
      "in_place",
      [](autograd::Context&, const Variable& x) {
        mul_(x, Scalar(2));
        return x + 1;
      },
      [](autograd::Context&, const Variable& dy) { return dy; });
  CHECK_THROWS_WITH_AS(in_place(values({1}) * 1),
                       doctest::Contains("forward of 'in_place': it changed input 0"), AutogradError);
  const auto none = autograd::function(
      "none", [](autograd::Context&, const Variable&) { return Variable(); },
      [](autograd::Context&, const Variable& dy) { return dy; });
  CHECK_THROWS_WITH_AS(none(values({1})), doctest::Contains("output 0 is undefined"), ValueError);
  const auto marks_input = autograd::function(
      "marks_input",
      [](autograd::Context& ctx, const Variable& x) {
        ctx.mark_non_differentiable({x});
        return x + 1;
      },
      [](autograd::Context&, const Variable& dy) { return dy; });
  CHECK_THROWS_WITH_AS(marks_input(values({1})), doctest::Contains("is not an output of 'marks_input'"),
                       ValueError);
}

TEST_CASE("custom function: a saved value that is changed in place is an error") {
  const Variable leaf = values({1, 2}), x = leaf * 1;
  const Variable y = Cube::apply(x);
  mul_(x, Scalar(2));
  CHECK_THROWS_WITH_AS(sum(y).backward(), doctest::Contains("backward of 'Cube'"), AutogradError);
  const Variable z = values({1, 2});
  const Variable e = own_exp(z);
  mul_(e, Scalar(2));
  CHECK_THROWS_WITH_AS(sum(e).backward(), doctest::Contains("that it returned was changed in place"),
                       AutogradError);
}

TEST_CASE("custom function: a second backward needs retain_graph") {
  const Variable x = values({2});
  const Variable y = Cube::apply(x);
  y.backward({.retain_graph = true});
  y.backward();
  CHECK(x.grad().item() == 24);
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("retain_graph"), AutogradError);
}

TEST_CASE("custom function: once_differentiable") {
  const auto once = autograd::function(
      "once",
      [](autograd::Context& ctx, const Variable& x) {
        ctx.save(x);
        return x * x;
      },
      [](autograd::Context& ctx, const Variable& dy) {
        CHECK_FALSE(grad_mode());
        return dy * ctx.saved(0) * 2;
      },
      {.once_differentiable = true});
  const Variable x = values({3});
  CHECK(grad(once(x), {x})[0].item() == 6);
  const Variable first = grad(once(x), {x}, {.create_graph = true})[0];
  CHECK(first.item() == 6);
  CHECK(first.requires_grad());
  CHECK_THROWS_WITH_AS(first.backward(), doctest::Contains("'once' is differentiable once only"),
                       AutogradError);

  CHECK(grad(OnceSquare::apply(x), {x})[0].item() == 6);
  const Variable of_class = grad(OnceSquare::apply(x), {x}, {.create_graph = true})[0];
  CHECK_THROWS_WITH_AS(of_class.backward(), doctest::Contains("'OnceSquare' is differentiable once"),
                       AutogradError);
}

TEST_CASE("custom function: saved_data") {
  const auto f = autograd::function(
      "data",
      [](autograd::Context& ctx, const Variable& x) {
        ctx.saved_data["count"] = 3;
        ctx.saved_data["shape"] = x.shape();
        ctx.saved_data["mode"] = "same";
        ctx.saved_data["flag"] = true;
        return x * 2;
      },
      [](autograd::Context& ctx, const Variable& dy) {
        CHECK(ctx.saved_data["count"].to<int64_t>() == 3);
        CHECK(ctx.saved_data["count"].to<double>() == 3.0);
        CHECK(ctx.saved_data["shape"].to<Shape>() == Shape{1});
        CHECK(ctx.saved_data["mode"].to<std::string>() == "same");
        CHECK(ctx.saved_data["flag"].to<bool>());
        CHECK_THROWS_WITH_AS(ctx.saved_data["mode"].to<int>(), doctest::Contains("another type"), ValueError);
        CHECK_THROWS_WITH_AS(ctx.saved_data["other"].to<int>(), doctest::Contains("did not set"), ValueError);
        CHECK_THROWS_WITH_AS(ctx.saved(0), doctest::Contains("the forward saved 0"), IndexError);
        CHECK_THROWS_AS(ctx.save(dy), AutogradError);
        return dy * 2;
      });
  const Variable x = values({1});
  f(x).backward();
  CHECK(x.grad().item() == 2);
}

TEST_CASE("custom function: a result in the memory of its input") {
  const Variable x = values({1, 2});
  const Variable y = reverse_gradient(x);
  CHECK(y.value().shares_storage(x.value()));
  CHECK_FALSE(y.is_same(x));
  sum(y).backward();
  check_values(x.grad(), {-1, -1});
  // The change would leave out the function's backward.
  const Variable h = x * 3, r = reverse_gradient(h);
  CHECK_THROWS_WITH_AS(mul_(r, Scalar(2)), doctest::Contains("custom function"), AutogradError);
  CHECK_THROWS_WITH_AS(mul_(select(r, 0, 0), Scalar(2)), doctest::Contains("custom function"), AutogradError);
  mul_(h, Scalar(2));
  CHECK_THROWS_WITH_AS(sum(r), doctest::Contains("after a custom function returned"), AutogradError);
  // A change that is not recorded, such as an optimizer's, leaves histories as they are.
  const Variable again = reverse_gradient(x);
  {
    NoGrad no_grad;
    mul_(x, Scalar(2));
  }
  CHECK(grad(sum(again), {x})[0].value().data<double>()[0] == -1);
}

TEST_CASE("custom function: saving policies apply, checkpointing runs the forward again") {
  int saved_values = 0;
  const Variable x = values({1, 2}), h = x * 1;
  {
    const SavingPolicyScope scope([&](const char* op, const Tensor&) -> std::shared_ptr<ValueSource> {
      CHECK(std::string(op) == "Cube");
      ++saved_values;
      return nullptr;
    });
    Cube::apply(h);
  }
  CHECK(saved_values == 1);
  CHECK(saved_bytes(Cube::apply(h)) == 16);

  int forwards = 0;
  const auto counted = autograd::function(
      "counted",
      [&](autograd::Context& ctx, const Variable& v) {
        ++forwards;
        ctx.save(v);
        return v * v;
      },
      [](autograd::Context& ctx, const Variable& dy) { return dy * ctx.saved(0) * 2; });
  const Variable y = checkpoint([&](const Variable& v) { return counted(v * 3) * 2; }, x);
  CHECK(forwards == 1);
  sum(y).backward();
  CHECK(forwards == 2);
  check_values(x.grad(), {36, 72});
}

TEST_CASE("custom function: a split backward") {
  const Variable a = Variable::leaf(Tensor::from({1.0, 2.0}, {1, 2}));
  const Variable w = Variable::leaf(Tensor::from({3.0, 4.0}, {2, 1}));
  const Variable y = ScaledProduct::apply(a, 1.0, w)[0];
  SplitBackward split({&y, 1});
  check_values(split.input_gradients({&a, 1})[0], {3, 4});
  CHECK_FALSE(w.grad().defined());
  split.weight_gradients();
  check_values(w.grad(), {1, 2});
}

TEST_CASE("custom function: threads run separate graphs of one function to a leaf that they share") {
  const Variable w = Variable::leaf(Tensor::scalar(3.0));
  constexpr int threads = 4, runs = 100;
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&w] {
      for (int i = 0; i < runs; ++i) (Cube::apply(w) + own_exp(w * 0)).backward();
    });
  for (std::thread& thread : running) thread.join();
  CHECK(w.grad().item() == 27.0 * threads * runs);
}
