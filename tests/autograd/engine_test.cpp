#include <doctest/doctest.h>

#include <thread>

#include "autograd/debug/anomaly.h"
#include "autograd/debug/backward_reports.h"
#include "autograd/debug/gradcheck.h"
#include "autograd/debug/graph_dot.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "autograd/record.h"
#include "autograd/split_backward.h"
#include "tensor/memory/account.h"
#include "tensor/ops/elementwise/cast.h"

using namespace tessera;

namespace {

Variable leaf(std::initializer_list<double> values, std::string name = "") {
  return Variable::leaf(Tensor::from(values), std::move(name));
}
Variable scalar_leaf(double value) {
  return Variable::leaf(Tensor::scalar(value));
}
std::vector<double> values(const Variable& x) {
  const Tensor t = x.value().contiguous();
  return {t.data<double>(), t.data<double>() + t.numel()};
}
using Values = std::vector<double>;

}  // namespace

TEST_CASE("backward: the derivative of a polynomial, summed over both uses of a leaf") {
  const Variable x = leaf({2.0, -3.0}), y = leaf({5.0, 7.0});
  const Variable z = x * x * y + x;  // dz/dx = 2xy + 1, dz/dy = x^2
  z.backward(Variable(Tensor::from({1.0, 1.0})));
  CHECK(values(x.grad()) == Values{21.0, -41.0});
  CHECK(values(y.grad()) == Values{4.0, 9.0});
}

TEST_CASE("backward: gradients accumulate over calls until set_grad({})") {
  const Variable x = scalar_leaf(3.0);
  (x * x).backward();
  (x * x).backward();
  CHECK(x.grad().item() == 12.0);
  x.set_grad({});
  (x * x).backward();
  CHECK(x.grad().item() == 6.0);
}

TEST_CASE("backward: two leaves that receive the same gradient own separate buffers") {
  const Variable x = scalar_leaf(1.0), y = scalar_leaf(2.0);
  (x + y).backward();
  CHECK_FALSE(x.grad().value().shares_storage(y.grad().value()));
  (x + x + y).backward();
  CHECK(x.grad().item() == 3.0);
  CHECK(y.grad().item() == 2.0);
}

TEST_CASE("backward: wrong use is an error") {
  const Variable x = leaf({1.0, 2.0});
  CHECK_THROWS_WITH_AS((x * x).backward(), doctest::Contains("implied only for a scalar"), AutogradError);
  const Variable s = scalar_leaf(2.0);
  const Variable y = s * s;
  y.backward();
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("retain_graph"), AutogradError);
  CHECK_THROWS_AS(Variable(Tensor::scalar(1.0)).backward(), AutogradError);
  CHECK_THROWS_AS((x * x).backward(Variable(Tensor::from({1.0}))), ShapeError);
  CHECK_THROWS_AS((x * x).backward(Variable(Tensor::from({1.0f, 1.0f}))), DTypeError);
  CHECK_THROWS_AS(Variable::leaf(Tensor::from<int64_t>({1, 2})), DTypeError);
}

TEST_CASE("backward: a backward that fails changes no leaf, and the next one works") {
  const Variable x = scalar_leaf(2.0);
  const Variable bad = record("bad", Tensor::scalar(1.0), {x}, saved(),
                              [](Saved&, const Incoming&, const Wanted&) -> Gradients {
                                return {Variable(Tensor::from({1.0, 2.0}))};
                              });
  CHECK_THROWS_WITH_AS(bad.backward(),
                       doctest::Contains("the rule of 'bad' returned a gradient of shape (2,)"), ShapeError);
  CHECK_FALSE(x.grad().defined());
  (x * x).backward();
  CHECK(x.grad().item() == 4.0);
}

TEST_CASE("retain_graph: the same graph runs twice and doubles the gradient") {
  const Variable x = scalar_leaf(3.0);
  const Variable y = x * x;
  y.backward({.retain_graph = true});
  y.backward();
  CHECK(x.grad().item() == 12.0);
}

TEST_CASE("grad: second and third derivatives of x^4 by create_graph") {
  const Variable x = scalar_leaf(2.0);
  const Variable y = x * x * x * x;
  const Variable d1 = grad(y, {x}, {.create_graph = true})[0];
  const Variable d2 = grad(d1, {x}, {.create_graph = true})[0];
  const Variable d3 = grad(d2, {x})[0];
  CHECK(d1.item() == 32.0);
  CHECK(d2.item() == 48.0);
  CHECK(d3.item() == 48.0);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("grad: of computed Variables, and of unused ones only where allowed") {
  const Variable x = scalar_leaf(2.0), unused = scalar_leaf(1.0);
  const Variable h = x * x;
  const Variable y = h * x;
  const auto gradients = grad(y, {h, x}, {.retain_graph = true});
  CHECK(gradients[0].item() == 2.0);
  CHECK(gradients[1].item() == 12.0);
  CHECK_THROWS_WITH_AS(grad(y, {unused}), doctest::Contains("allow_unused"), AutogradError);
  CHECK_FALSE(grad(x * x, {unused}, {.allow_unused = true})[0].defined());
}

TEST_CASE("create_graph: gradients that accumulate are themselves differentiable") {
  const Variable x = scalar_leaf(3.0);
  (x * x * x).backward({.create_graph = true});
  const Variable slope = x.grad();
  CHECK(slope.item() == 27.0);
  CHECK(grad(slope, {x})[0].item() == 18.0);
}

TEST_CASE("backward: only the given leaves receive gradients, and only rules that lead to them run") {
  const Variable x = scalar_leaf(2.0), w = scalar_leaf(5.0);
  int wanted_weight = 0;
  const Variable y =
      record("probe", Tensor::scalar(10.0), {x, w}, saved(x, w),
             [&](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
               wanted_weight += wanted[1] ? 1 : 0;
               return {wanted[0] ? dy[0] * s[1] : Variable(), wanted[1] ? dy[0] * s[0] : Variable()};
             });
  const Variable inputs[] = {x};
  backward({&y, 1}, {}, {}, inputs);
  CHECK(x.grad().item() == 5.0);
  CHECK_FALSE(w.grad().defined());
  CHECK(wanted_weight == 0);
}

TEST_CASE("no_grad and detach: nothing is recorded") {
  const Variable x = scalar_leaf(2.0);
  {
    NoGrad no_grad;
    CHECK_FALSE((x * x).requires_grad());
  }
  CHECK((x * x).requires_grad());
  const Variable y = (x * x).detach() * x;
  y.backward();
  CHECK(x.grad().item() == 4.0);
}

TEST_CASE("a graph of a million operations runs backward and is freed without recursion") {
  const Variable x = scalar_leaf(1.0);
  Variable y = x;
  for (int i = 0; i < 1'000'000; ++i)
    y = record("same", Tensor(y.value()), {y}, saved(),
               [](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0]}; });
  y.backward();
  CHECK(x.grad().item() == 1.0);
  y = Variable();
}

TEST_CASE("saved values: a change in place is an error that names the operation") {
  const Variable x = leaf({1.0, 2.0});
  const Variable h = x + x;
  const Variable y = h * h;
  h.value().zero();
  CHECK_THROWS_WITH_AS(y.backward(Variable(Tensor::from({1.0, 1.0}))), doctest::Contains("backward of 'mul'"),
                       AutogradError);
}

TEST_CASE("in-place operations: differentiable on computed values, an error on leaves") {
  const Variable x = leaf({1.0, 2.0}), y = leaf({3.0, 4.0});
  Variable h = x * x;
  add_(h, y);  // h = x^2 + y
  (h * h).backward(Variable(Tensor::from({1.0, 1.0})));
  CHECK(values(x.grad()) == Values{2 * 4.0 * 2, 2 * 8.0 * 4});
  CHECK(values(y.grad()) == Values{8.0, 16.0});

  CHECK_THROWS_WITH_AS(add_(x, y), doctest::Contains("requires a gradient and cannot be changed in place"),
                       AutogradError);
  NoGrad no_grad;
  CHECK_NOTHROW(add_(x, y));
}

TEST_CASE("hooks: receive and replace gradients of leaves and computed values, until removed") {
  const Variable x = scalar_leaf(2.0);
  const Variable h = x * x;
  double seen = 0;
  HookHandle on_h = h.register_hook([&](const Variable& g) {
    seen = g.item();
    return g + g;
  });
  HookHandle on_x = x.register_hook([](const Variable& g) { return g + g + g; });
  (h + h).backward({.retain_graph = true});
  CHECK(seen == 2.0);
  CHECK(x.grad().item() == 3 * (2 * 2.0) * 4.0);
  on_h.remove();
  on_x.remove();
  x.set_grad({});
  (h + h).backward();
  CHECK(x.grad().item() == 8.0);
}

TEST_CASE("retain_grad: gradients of several backwards add up") {
  const Variable x = scalar_leaf(2.0);
  const Variable h = x * 1.0;
  h.retain_grad();
  const Variable y = h * h;
  y.backward({.retain_graph = true});
  y.backward();
  CHECK(h.grad().item() == 4 * 2.0);
  (x * x).backward();  // does not reach h
  CHECK(h.grad().item() == 4 * 2.0);
}

TEST_CASE("backward twice: an error only where saved values were freed") {
  const Variable x = scalar_leaf(2.0);
  const Variable y = x + 1.0;
  y.backward();
  y.backward();
  CHECK(x.grad().item() == 2.0);
  const Variable z = x * x;
  z.backward();
  CHECK_THROWS_AS(z.backward(), AutogradError);
}

TEST_CASE("cast: integers and bools are constants") {
  const Variable x = leaf({1.0, 2.0});
  for (const DType dtype : {i64, i32, u8, boolean}) {
    const Variable y = cast(x, dtype);
    CHECK_FALSE(y.requires_grad());
    CHECK(y.is_leaf());
  }
  CHECK(cast(x, f32).requires_grad());
}

TEST_CASE("in-place: integers and bools that are written stay constants") {
  const Variable x = leaf({3.7, 5.0});
  for (const DType dtype : {i64, i32, u8, boolean}) {
    const Variable whole = Tensor::zeros({2}, dtype), rows = Tensor::zeros({2, 2}, dtype);
    copy_(whole, x);
    copy_(select(rows, 0, 1), x);
    CHECK_FALSE(whole.requires_grad());
    CHECK_FALSE(rows.requires_grad());
    CHECK(whole.is_leaf());
    CHECK(rows.value().select(0, 1).to(f64).select(0, 0).item() == (dtype == boolean ? 1.0 : 3.0));
  }
  const Variable y = sum(x * 2.0);
  y.backward();
  CHECK(x.grad().defined());
}

TEST_CASE("grad: of no inputs is an error") {
  const Variable y = scalar_leaf(2.0) * 2.0;
  CHECK_THROWS_WITH_AS(grad(y, {}), doctest::Contains("at least one input"), ValueError);
}

TEST_CASE("retain_grad: the gradient of a computed value is kept") {
  const Variable x = scalar_leaf(2.0);
  const Variable h = x * x;
  h.retain_grad();
  (h * h).backward();
  CHECK(h.grad().item() == 8.0);
}

TEST_CASE("reports: which leaves a backward reaches, when each is complete, and its end") {
  const Variable a = scalar_leaf(2.0), b = scalar_leaf(3.0), unused = scalar_leaf(1.0);
  std::vector<std::string> events;
  BackwardObserver observer([&](std::span<const Variable> leaves) {
    events.push_back("start " + std::to_string(leaves.size()));
    at_backward_end([&] { events.push_back("end"); });
  });
  // The hook of `a` is called after the gradients of both its uses were added.
  HookHandle ha = a.register_post_accumulate_grad_hook(
      [&](const Variable& leaf) { events.push_back(text("a ", leaf.grad().item())); });
  HookHandle hb = b.register_post_accumulate_grad_hook(
      [&](const Variable& leaf) { events.push_back(text("b ", leaf.grad().item())); });
  const Variable y = a * (a * b);
  y.backward();
  REQUIRE(events.size() == 4);
  CHECK(events[0] == "start 2");
  CHECK(((events[1] == "a 12" && events[2] == "b 4") || (events[1] == "b 4" && events[2] == "a 12")));
  CHECK(events[3] == "end");
  CHECK_THROWS_AS(at_backward_end([] {}), AutogradError);
  (void)unused;
}

TEST_CASE("reports: a backward inside a hook ends before the outermost's callbacks run") {
  const Variable x = scalar_leaf(2.0), inner = scalar_leaf(5.0);
  std::vector<int> order;
  const Variable y = x * x;
  y.register_hook([&](const Variable&) -> Variable {
    GradMode record_again(true);  // hooks run without recording
    (inner * inner).backward();
    at_backward_end([&] { order.push_back(2); });
    order.push_back(1);
    return {};
  });
  (y * y).backward();
  CHECK(order == std::vector<int>{1, 2});
  CHECK(inner.grad().item() == 10.0);
  CHECK(x.grad().item() == 32.0);
}

TEST_CASE("split backward: input gradients, then weight gradients, have the bits of one backward") {
  const auto run = [](bool split) {
    const Variable x = leaf({0.3, -1.7}), w = leaf({1.1, 0.9}), v = leaf({-0.4, 2.3});
    const Variable scale = w * w;  // leads to a weight only, through an operation of its own
    const Variable h = x * w + v * scale;
    const Variable y = h * h * w;
    const Variable seed(Tensor::from({0.7, 1.3}));
    if (split) {
      const Variable roots[] = {y}, seeds[] = {seed}, inputs[] = {x};
      SplitBackward backward(roots, seeds);
      const std::vector<Variable> dx = backward.input_gradients(inputs);
      CHECK_FALSE(w.grad().defined());
      backward.weight_gradients();
      return std::vector<Values>{values(dx[0]), values(w.grad()), values(v.grad())};
    }
    y.backward(seed);
    return std::vector<Values>{values(x.grad()), values(w.grad()), values(v.grad())};
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("accumulation in place: a rule adds to the leaf's gradient if there is one") {
  const Variable w = leaf({1.0, 1.0});
  int in_place = 0;
  const auto forward = [&] {
    return record("scaled", w.value().clone(), {w}, saved(),
                  [&](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
                    const auto [out, add] = wanted.target(0, {2}, f64, cpu());
                    for (int i = 0; i < 2; ++i) {
                      const double arrived = dy[0].value().data<double>()[i];
                      out.data<double>()[i] = add ? out.data<double>()[i] + arrived : arrived;
                    }
                    in_place += add;
                    return {Variable(out)};
                  });
  };
  const Variable seed(Tensor::from({2.0, 3.0}));
  forward().backward(seed);
  const void* buffer = w.grad().value().raw_data();
  forward().backward(seed);
  CHECK(in_place == 1);
  CHECK(values(w.grad()) == Values{4.0, 6.0});
  CHECK(w.grad().value().raw_data() == buffer);
}

TEST_CASE("a leaf's own gradient dtype: bf16 values, f32 gradient") {
  const Variable w = Variable::parameter(ops::cast(Tensor::from({1.5f, 2.0f}), bf16));
  w.set_grad_dtype(f32);
  (w * w).backward(ops::cast(Tensor::from({1.0f, 1.0f}), bf16));
  CHECK(w.grad().dtype() == f32);
  CHECK(w.grad().value().data<float>()[0] == 3.0f);
  CHECK_THROWS_AS(w.set_grad(Variable(Tensor::from({1.0, 1.0}))), DTypeError);
}

TEST_CASE("threads: each runs a backward and counts its memory in its own account") {
  std::vector<std::thread> threads;
  std::vector<double> results(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &results] {
      const auto account = make_intrusive<MemoryAccount>();
      AccountScope scope(account);
      {
        const Variable x = scalar_leaf(t);
        for (int i = 0; i < 200; ++i) (x * x * x).backward();
        results[t] = x.grad().item();
      }
      if (account->total().current != 0 || account->total().peak == 0) results[t] = -1;
    });
  for (auto& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) CHECK(results[t] == 200.0 * 3 * t * t);
}

TEST_CASE("memory: saved values are freed during backward, gradients are counted as gradients") {
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  const Variable x = Variable::leaf(Tensor::zeros({1000}, f64));
  Variable y = x;
  for (int i = 0; i < 10; ++i) y = y * y;
  const int64_t held = account->total().current;
  CHECK(held == 11 * 8000);
  CHECK(saved_bytes(y) == 10 * 8000);
  y.backward(Variable(Tensor::zeros({1000}, f64)));
  CHECK(account->count(MemoryCategory::gradient).current == 8000);
  CHECK(account->count(MemoryCategory::activation).current == 2 * 8000);  // x and y themselves
}

TEST_CASE("anomaly mode: the error names the operation, the module and the first NaN") {
  AnomalyMode anomaly;
  const std::string module = "blocks.3.mlp";
  NamedScope scope(module);
  const Variable x = leaf({1.0, __builtin_nan("")});
  CHECK_THROWS_WITH_AS(x * x,
                       doctest::Contains("forward of 'mul' in 'blocks.3.mlp' produced NaN at element (1,)"),
                       NonFiniteError);
  const Variable good = leaf({1.0, 2.0});
  const Variable y = good * good;
  CHECK_THROWS_WITH_AS(y.backward(Variable(Tensor::from({__builtin_nan(""), 1.0}))),
                       doctest::Contains("backward of 'mul'"), NonFiniteError);
}

TEST_CASE("named scope: a temporary name is moved into the scope") {
  AnomalyMode anomaly;
  NamedScope scope("a name that is too long to lie inside a string object, so that it has memory of its own");
  const std::vector<std::string> others(8, std::string(100, '?'));
  CHECK(current_scope().ends_with("memory of its own"));
}

TEST_CASE("gradcheck: passes a correct rule and locates the error of a wrong one") {
  const std::vector<Variable> inputs{leaf({0.3, -1.2}), leaf({2.0, 0.7})};
  const auto right = [](std::span<const Variable> v) { return std::vector<Variable>{v[0] * v[1] * v[0]}; };
  CHECK(gradcheck(right, inputs).passed);
  CHECK(gradgradcheck(right, inputs).passed);
  const auto wrong = [](std::span<const Variable> v) {
    return std::vector<Variable>{
        record("wrong", (v[0] * v[0]).value(), {v[0]}, saved(v[0]),
               [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients { return {dy[0] * s[0]}; })};
  };
  const GradcheckResult result = gradcheck(wrong, inputs);
  CHECK_FALSE(result.passed);
  CHECK(result.message.find("gradient of input 0 (2,) at element 0") != std::string::npos);
}

TEST_CASE("graph_dot: a box per operation and the leaves by name") {
  const Variable x = leaf({1.0, 2.0}, "x"), w = leaf({3.0, 4.0}, "weight");
  const std::string dot = graph_dot(x * w + x);
  CHECK(dot.starts_with("digraph"));
  for (const char* expected : {"add\\n(2,) f64", "mul", "saves 32 B", "\"weight\\n(2,)\"", "n0 -> n1"})
    CHECK(dot.find(expected) != std::string::npos);
}

TEST_CASE("backward: a leaf that was frozen after the forward receives no gradient") {
  const Variable x = Variable::leaf(Tensor::from({3.0})), w = Variable::leaf(Tensor::from({2.0}));
  const Variable y = sum(x * x * w);
  int calls = 0;
  const HookHandle handle = x.register_post_accumulate_grad_hook([&](const Variable&) { ++calls; });
  x.set_requires_grad(false);
  y.backward();
  CHECK_FALSE(x.grad().defined());
  CHECK(calls == 0);
  CHECK(w.grad().item() == 9);
}
