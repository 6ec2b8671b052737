// Backward hooks of modules leave the graph as it is: its branches stay separate.

#include <doctest/doctest.h>

#include <array>
#include <list>
#include <map>
#include <unordered_map>
#include <variant>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "tensor/ops/creation/creation.h"

using namespace tessera;

namespace {

/// Two results that share only the argument: x * left, x * right.
struct Fork : nn::Layer<Fork> {
  Variable left = Variable::leaf(Tensor::from<float>({2, 3}, {2}), "left");
  Variable right = Variable::leaf(Tensor::from<float>({5, 7}, {2}), "right");
  std::pair<Variable, Variable> forward(const Variable& x) { return {x * left, x * right}; }
};

/// Two arguments, each with a result of its own.
struct TwoBranches : nn::Layer<TwoBranches> {
  std::pair<Variable, Variable> forward(const Variable& a, const Variable& b) { return {a * a, b * b}; }
};

Variable leaf(float a, float b) {
  return Variable::leaf(Tensor::from<float>({a, b}, {2}));
}

std::vector<float> values(const Variable& x) {
  if (!x.defined()) return {};
  return {x.value().data<float>(), x.value().data<float>() + x.numel()};
}
using Values = std::vector<float>;

/// The calls of the hooks of one kind: each gradient's first element, or -1 where it is undefined.
struct HookCalls {
  std::vector<std::vector<float>> calls;
  nn::BackwardHook hook() {
    return [this](nn::Module&, std::vector<Variable>& gradients) {
      calls.emplace_back();
      for (const Variable& g : gradients) calls.back().push_back(g.defined() ? values(g)[0] : -1);
    };
  }
};
using Calls = std::vector<std::vector<float>>;

}  // namespace

TEST_CASE("module hooks: a result that no loss uses reaches nothing, in any order of use") {
  for (const bool retain : {false, true}) {
    CAPTURE(retain);
    Fork fork;
    HookCalls results, arguments;
    fork.register_full_backward_pre_hook(results.hook());
    fork.register_input_gradient_hook(arguments.hook());
    const Variable x = leaf(1, 10);
    const auto [a, b] = fork(x);
    sum(b).backward({.retain_graph = retain});
    CHECK(!fork.left.grad().defined());
    CHECK(values(fork.right.grad()) == Values{1, 10});
    CHECK(results.calls == Calls{{-1, 1}});
    CHECK(arguments.calls == Calls{{5}});
    const auto [c, d] = fork(x);
    sum(c + d).backward({.retain_graph = retain});
    CHECK(values(fork.left.grad()) == Values{1, 10});
    CHECK(values(fork.right.grad()) == Values{2, 20});
    CHECK(values(x.grad()) == Values{5 + 7, 7 + 10});
    CHECK(results.calls == Calls{{-1, 1}, {1, 1}});
    CHECK(arguments.calls == Calls{{5}, {7}});
    if (!retain) continue;
    sum(a + b).backward();
    CHECK(results.calls.back() == std::vector<float>{1, 1});
    CHECK(values(fork.left.grad()) == Values{2, 20});
  }
}

TEST_CASE("module hooks: two losses on branches that share only leaves run backward one after the other") {
  for (const bool with_hooks : {false, true}) {
    CAPTURE(with_hooks);
    Fork fork;
    TwoBranches branches;
    HookCalls results, arguments;
    if (with_hooks)
      for (nn::Module* module : {static_cast<nn::Module*>(&fork), static_cast<nn::Module*>(&branches)}) {
        module->register_full_backward_pre_hook(results.hook());
        module->register_input_gradient_hook(arguments.hook());
      }
    const Variable x = leaf(1, 2), y = leaf(3, 4);
    const auto [a, b] = fork(x);
    const auto [c, d] = branches(a, y * b);
    sum(c).backward();
    CHECK(values(fork.left.grad()) == Values{4, 24});
    CHECK(!fork.right.grad().defined());
    CHECK(!y.grad().defined());
    sum(d).backward();
    CHECK(values(fork.left.grad()) == Values{4, 24});
    CHECK(values(y.grad()) == Values{2 * 3 * 25, 2 * 4 * 14 * 14});
    if (with_hooks) CHECK(results.calls == Calls{{1, -1}, {4, -1}, {-1, 1}, {-1, 90}});
    if (with_hooks) CHECK(arguments.calls == Calls{{4, -1}, {8}, {-1, 30}, {450}});
  }
}

TEST_CASE("module hooks: one branch's graph is freed while another's is kept") {
  Fork fork;
  HookCalls seen;
  fork.register_full_backward_pre_hook(seen.hook());
  const intrusive_ptr<Storage> storage = Tensor::from<float>({1, 2}, {2}).storage();
  std::pair<Variable, Variable> results = fork(Variable(Tensor::over(storage, f32, {2}, {1})));
  const int64_t uses = storage->use_count();
  results.first = Variable();
  CHECK(storage->use_count() == uses - 1);  // the left branch saved it
  sum(results.second).backward();
  CHECK(seen.calls == Calls{{-1, 1}});
}

TEST_CASE(
    "module hooks: gradients are replaced one by one; an invalid replacement is refused, naming the module") {
  struct Outer : nn::Layer<Outer> {
    Fork& fork = add<Fork>("fork");
    std::pair<Variable, Variable> forward(const Variable& x) { return fork(x); }
  };
  Outer outer;
  nn::BackwardHook replace;
  outer.fork.register_full_backward_pre_hook(
      [&](nn::Module& module, std::vector<Variable>& gradients) { replace(module, gradients); });
  const auto gradients_of = [&](bool both) {
    outer.fork.left.set_grad({});
    outer.fork.right.set_grad({});
    const auto [a, b] = outer(Variable(ops::ones({2}, f32)));
    sum(both ? a + b : a).backward();
    return std::pair(values(outer.fork.left.grad()), values(outer.fork.right.grad()));
  };
  replace = [](nn::Module&, std::vector<Variable>& g) { g[1] = g[1] * 3.0; };
  CHECK(gradients_of(true) == std::pair(Values{1, 1}, Values{3, 3}));
  replace = [](nn::Module&, std::vector<Variable>& g) { g[0] = Variable(); };
  CHECK(gradients_of(true) == std::pair(Values{}, Values{1, 1}));
  replace = [](nn::Module&, std::vector<Variable>& g) { g[1] = g[0]; };
  CHECK_THROWS_WITH_AS(gradients_of(false), doctest::Contains("'fork', gradient 1: expected none"),
                       AutogradError);
  replace = [](nn::Module&, std::vector<Variable>& g) { g[0] = Variable(ops::ones({3}, f32)); };
  CHECK_THROWS_WITH_AS(gradients_of(true), doctest::Contains("'fork', gradient 0: expected (2,)"),
                       AutogradError);
  replace = [](nn::Module&, std::vector<Variable>& g) { g.pop_back(); };
  CHECK_THROWS_AS(gradients_of(true), AutogradError);
  replace = [](nn::Module&, std::vector<Variable>&) {};
  CHECK(gradients_of(true) == std::pair(Values{1, 1}, Values{1, 1}));
}

TEST_CASE("module hooks: one that runs a backward through its own call") {
  Fork fork;
  std::vector<float> inner;
  Variable a, b, inner_loss;
  fork.register_full_backward_pre_hook([&](nn::Module&, std::vector<Variable>& gradients) {
    if (!inner.empty() || !gradients[0].defined()) return;
    inner = {0};
    const Variable dx = grad(inner_loss, {fork.right}, {.retain_graph = true})[0];
    inner = values(dx);
  });
  std::tie(a, b) = fork(leaf(1, 2));
  inner_loss = sum(b);
  sum(a + b).backward();
  CHECK(inner == std::vector<float>{1, 2});
  CHECK(values(fork.left.grad()) == Values{1, 2});
  CHECK(values(fork.right.grad()) == Values{1, 2});
}

TEST_CASE("module hooks: those of a destroyed module, or removed since the call, are not called") {
  HookCalls seen;
  Variable loss, x = leaf(1, 2);
  {
    TwoBranches branches;
    branches.register_full_backward_pre_hook(seen.hook());
    branches.register_input_gradient_hook(seen.hook());
    loss = sum(branches(x, leaf(3, 4)).first);
  }
  loss.backward();
  CHECK(values(x.grad()) == Values{2, 4});
  CHECK(seen.calls.empty());

  TwoBranches branches;
  HookHandle hook = branches.register_full_backward_pre_hook(seen.hook());
  loss = sum(branches(x, x).second);
  hook.remove();
  branches.register_full_backward_pre_hook(seen.hook());
  loss.backward();
  CHECK(seen.calls.empty());
}

TEST_CASE("module hooks: an exception in a backward does not affect the next one") {
  Fork fork;
  HookCalls seen;
  fork.register_full_backward_pre_hook(seen.hook());
  const auto [a, b] = fork(leaf(1, 2));
  bool throws = true;
  const Variable c = a * 2.0;
  fork.register_full_backward_pre_hook([&](nn::Module&, std::vector<Variable>&) {});
  const HookHandle hook = b.register_hook([&](const Variable&) -> Variable {
    if (throws) throw std::runtime_error("from a hook");
    return {};
  });
  CHECK_THROWS_AS(sum(c + b).backward({.retain_graph = true}), std::runtime_error);
  throws = false;
  sum(c).backward({.retain_graph = true});
  CHECK(seen.calls == Calls{{2, -1}});
}

TEST_CASE("module hooks: a call that an exception ends calls the failure hooks, and not the forward hooks") {
  struct Throwing : nn::Layer<Throwing> {
    Variable forward(const Variable& x, bool throws) {
      if (throws) throw ValueError("from forward");
      return x;
    }
  };
  Throwing layer;
  std::vector<std::string> seen;
  layer.register_forward_hook(
      [&](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) { seen.push_back("forward"); });
  HookHandle failure = layer.register_forward_failure_hook([&](nn::Module&) {
    seen.push_back("failure");
    throw std::runtime_error("dropped");
  });
  const Variable x = leaf(1, 2);
  layer(x, false);
  CHECK_THROWS_AS(layer(x, true), ValueError);
  CHECK(seen == std::vector<std::string>{"forward", "failure"});
  failure.remove();
  CHECK_THROWS_AS(layer(x, true), ValueError);
  CHECK(seen.size() == 2);
}

TEST_CASE("module hooks: run around a named call, which computes with what they replace") {
  struct Scaled : nn::Layer<Scaled> {
    Variable forward(const Variable& x) { return x; }
    Variable forward_scaled(const Variable& x, double factor, int& calls) {
      const auto body = [&](const Variable& in) {
        ++calls;
        if (factor == 0) throw ValueError("from a named call");
        return in * factor;
      };
      return call(body, x);
    }
  };
  Scaled layer;
  int calls = 0;
  const Variable x = leaf(1, 2);
  CHECK(values(layer.forward_scaled(x, 3, calls)) == Values{3, 6});
  HookCalls results, arguments;
  int failures = 0;
  layer.register_forward_pre_hook([](nn::Module&, const nn::CallVariables& in) { in[0] = in[0] * 10.0; });
  layer.register_forward_hook(
      [](nn::Module&, const nn::CallVariables&, const nn::CallVariables& out) { out[0] = out[0] + 1.0; });
  layer.register_forward_failure_hook([&](nn::Module&) { ++failures; });
  layer.register_full_backward_pre_hook(results.hook());
  layer.register_input_gradient_hook(arguments.hook());
  const Variable y = layer.forward_scaled(x, 3, calls);
  CHECK(values(y) == Values{31, 61});
  CHECK(values(x) == Values{1, 2});
  sum(y).backward();
  CHECK(results.calls == Calls{{1}});
  CHECK(arguments.calls == Calls{{3}});
  CHECK(values(x.grad()) == Values{30, 30});
  CHECK_THROWS_AS(layer.forward_scaled(x, 0, calls), ValueError);
  CHECK(failures == 1);
  CHECK(calls == 3);
}

TEST_CASE("module hooks: get the Variables of every container, nested too") {
  using Nested = std::map<std::string, std::vector<Variable>>;
  struct Containers : nn::Layer<Containers> {
    std::unordered_map<int, std::array<Variable, 2>> forward(const Nested& in,
                                                             const std::list<std::optional<Variable>>& more,
                                                             const std::variant<int, Variable>& either,
                                                             const std::vector<std::string>& names) {
      CHECK(names.size() == 2);
      return {{7, {in.at("a")[1] * 2.0, **more.begin() * std::get<Variable>(either)}}};
    }
  };
  Containers containers;
  size_t inputs = 0, outputs = 0, gradients = 0;
  containers.register_forward_pre_hook([&](nn::Module&, const nn::CallVariables& in) { inputs = in.size(); });
  containers.register_forward_hook(
      [&](nn::Module&, const nn::CallVariables&, const nn::CallVariables& out) { outputs = out.size(); });
  containers.register_input_gradient_hook(
      [&](nn::Module&, std::vector<Variable>& g) { gradients = g.size(); });
  const Variable x = leaf(1, 2), y = leaf(3, 4);
  const auto result =
      containers(Nested{{"a", {x, x}}, {"b", {}}}, std::list<std::optional<Variable>>{y, std::nullopt},
                 std::variant<int, Variable>(y), std::vector<std::string>{"p", "q"});
  CHECK(inputs == 4);
  CHECK(outputs == 2);
  sum(result.at(7)[0] + result.at(7)[1]).backward();
  CHECK(gradients == 4);
  CHECK(values(x.grad()) == Values{2, 2});
  CHECK(values(y.grad()) == Values{6, 8});
}

TEST_CASE("modules: which can be called, and which are containers") {
  struct WithoutForward : nn::Layer<WithoutForward> {
    nn::Linear& a = add<nn::Linear>("a", {.in = 2, .out = 2});
  };
  WithoutForward parent;
  TwoBranches branches;
  nn::ModuleList<nn::Linear> list;
  nn::Sequential sequential;
  CHECK(!parent.has_forward());
  CHECK(parent.a.has_forward());
  CHECK(branches.has_forward());
  CHECK(list.has_forward());
  CHECK(list.is_container());
  CHECK(!sequential.is_container());
}

TEST_CASE(
    "module hooks: a container that the caller passes keeps its own Variables, unless forward writes it") {
  struct Total : nn::Layer<Total> {
    Variable forward(const std::vector<Variable>& terms) { return terms[0] + terms[1]; }
  };
  struct Doubled : nn::Layer<Doubled> {
    void forward(std::vector<Variable>& terms, const std::map<int, Variable>& more, int64_t& calls) {
      terms[0] = terms[0] * 2.0 + more.at(1);
      ++calls;
    }
  };
  HookCalls seen;
  Total hooked, plain;
  hooked.register_input_gradient_hook(seen.hook());
  const Variable a = leaf(1, 2), b = leaf(3, 4);
  std::vector<Variable> terms{a, b};
  const Variable first = hooked(terms), second = plain(terms);
  CHECK(terms[0].is_same(a));
  CHECK(terms[1].is_same(b));
  sum(first + second).backward();
  CHECK(seen.calls == Calls{{1, 1}});
  CHECK(values(a.grad()) == Values{2, 2});

  Doubled doubled;
  doubled.register_input_gradient_hook(seen.hook());
  std::map<int, Variable> more{{1, b}};
  int64_t calls = 0;
  doubled(terms, more, calls);
  CHECK(calls == 1);
  CHECK(values(terms[0]) == Values{5, 8});
  CHECK(more.at(1).is_same(b));
}
