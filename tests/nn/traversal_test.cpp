// Names, orders, paths, text and hooks of modules, as PyTorch's (make_module_goldens.py).

#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "nn/layers/activation.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tensor/ops/creation/creation.h"
#include "tests/nn/golden_net.h"

using namespace tessera;
using namespace module_goldens;

namespace {

template <class List>
std::string names_of(const List& list, const std::string& quote = "") {
  std::string all;
  for (const auto& entry : list) all += (all.empty() ? "" : " ") + quote + entry.name + quote;
  return all;
}

}  // namespace

TEST_CASE("modules: traversals list PyTorch's names in PyTorch's order") {
  Net net;
  CHECK(names_of(net.named_parameters()) == golden("named_parameters"));
  CHECK(names_of(net.named_buffers()) == golden("named_buffers"));
  CHECK(names_of(net.named_modules(), "'") == golden("named_modules"));
  CHECK(names_of(std::as_const(net).named_modules(), "'") == golden("named_modules"));
  CHECK(names_of(net.named_children()) == golden("named_children"));
  CHECK(names_of(std::as_const(net).named_children()) == golden("named_children"));
  std::istringstream expected(golden("state_dict")), given(names_of(net.state_dict()));
  using Words = std::istream_iterator<std::string>;
  CHECK(std::set<std::string>(Words(given), {}) == std::set<std::string>(Words(expected), {}));
  std::string applied;
  const nn::Module& returned =
      net.apply([&](nn::Module& m) { applied += (applied.empty() ? "" : " ") + m.kind(); });
  CHECK(applied == golden("apply"));
  CHECK(&returned == &net);
  CHECK(names_of(net.blocks.named_parameters()) ==
        "0.weight 0.bias 1.weight 1.bias 2.weight 2.bias");  // relative to the module
}

TEST_CASE("modules: range-for with references and structured bindings") {
  Net net;
  size_t count = 0;
  for (nn::Module& child : net.children()) count += child.named_parameters().size();
  CHECK(count == 2 + 6 + 1);
  CHECK(net.children().size() == 4);
  CHECK(net.modules().size() == 8);
  CHECK(&net.modules()[0] == &net);
  CHECK(std::as_const(net).modules().size() == 8);
  CHECK(&std::as_const(net).children()[0] == &net.fc1);
  for (auto& [name, parameter] : net.named_parameters()) parameter.set_requires_grad(name == "out.weight");
  CHECK(net.out.weight.requires_grad());
  CHECK(!net.fc1.weight.requires_grad());
  for (auto& [name, module] : net.named_modules())
    if (auto* linear = module.as<nn::Linear>()) CHECK(linear->full_name() == name);
  CHECK(std::as_const(net).at("fc1").as<nn::GELU>() == nullptr);
}

TEST_CASE("modules: paths, and errors that name what exists") {
  Net net;
  CHECK(&net.get_submodule("blocks.1") == &net.blocks[1]);
  CHECK(&std::as_const(net).get_submodule("") == &net);
  CHECK(net.get_parameter("blocks.1.bias").is_same(*net.blocks[1].bias));
  CHECK(net.get_buffer("scale").is_same(net.scale));
  CHECK_THROWS_WITH_AS(net.get_submodule("fc2"), doctest::Contains("it has fc1, act, blocks, out"),
                       ValueError);
  CHECK_THROWS_WITH_AS(net.get_parameter("fc1.scale"),
                       "get_parameter: no parameter 'scale' in Linear 'fc1': it has weight, bias",
                       ValueError);
  CHECK_THROWS_WITH_AS(net.get_buffer("fc1.weight"), doctest::Contains("in Linear 'fc1': it has none"),
                       ValueError);
}

TEST_CASE("modules: modes, freezing and conversion return the module") {
  Net net;
  CHECK(&net.eval() == &net);
  CHECK(!net.blocks[2].is_training());
  CHECK(net.train().is_training());
  CHECK(!net.requires_grad_(false).get_parameter("fc1.bias").requires_grad());
  net.requires_grad_();
  CHECK(net.out.weight.requires_grad());
  CHECK_THROWS_WITH_AS(net.to(cpu()), doctest::Contains("call nn::materialize(module, cpu, seed) instead"),
                       DeviceError);
  net.to(f64);  // on meta: of the values to come
  nn::materialize(net, cpu(), 1);
  CHECK(net.fc1.weight.dtype() == f64);
  net.to(cpu(), f32);
  CHECK(net.fc1.weight.dtype() == f32);
}

TEST_CASE("modules: the tree is printed as PyTorch's repr, types by their names") {
  Net net;
  std::ostringstream out;
  out << net;
  std::string text = std::regex_replace(out.str(), std::regex(R"(Linear\([^()\n]*\))"), "Linear()");
  for (char& c : text)
    if (c == '\n') c = '|';
  CHECK(text == std::regex_replace(golden("repr"), std::regex("\\(approximate[^)]*\\)"), "()"));
  CHECK(to_string(net.out) == "Linear(4 -> 2, no bias)");
  CHECK(Net().kind() == "Net");
  struct Local : nn::Layer<Local> {};
  CHECK(to_string(Local()) == "Local()");
  CHECK(nn::Module().kind() == "Module");
}

TEST_CASE("hooks: arguments, results and gradients that PyTorch's hooks see and replace") {
  Net net;
  nn::materialize(net, cpu(), 1);
  fill_parameters(net);
  net.fc1.register_forward_pre_hook([](nn::Module&, const nn::CallVariables& in) { return in[0] * 2.0; });
  net.blocks[0].register_forward_hook([](auto&, auto& in, auto& out) { out[0] = out[0] + in[0]; });
  net.out.register_full_backward_pre_hook(
      [](nn::Module&, std::vector<Variable>& grad_outputs) { return std::vector{grad_outputs[0] * 3.0}; });
  net.fc1.register_full_backward_hook([](auto&, auto& grad_inputs, auto&) { return grad_inputs[0] * 0.5; });
  Variable grad_input, grad_output;
  net.blocks[1].register_full_backward_hook(
      [&](nn::Module&, std::vector<Variable>& grad_inputs, const std::vector<Variable>& grad_outputs) {
        grad_input = grad_inputs[0];
        grad_output = grad_outputs[0];
      });
  const Variable x = Variable::leaf(pattern({2, 3}));
  const Variable y = net(x);
  sum(y * y).backward();
  check_close(y.value(), "y");
  check_close(x.grad().value(), "x.grad");
  check_close(net.fc1.weight.grad().value(), "fc1.weight.grad");
  check_close(net.out.weight.grad().value(), "out.weight.grad");
  check_close(grad_input.value(), "blocks.1 grad_input");
  check_close(grad_output.value(), "blocks.1 grad_output");
}

TEST_CASE("hooks: a full backward hook of a module whose arguments require no gradient") {
  nn::Linear first({.in = 3, .out = 2});
  nn::materialize(first, cpu(), 1);
  std::ostringstream calls;
  const auto none = [](const Variable& x) { return x.defined() ? "False" : "True"; };
  HookHandle hook = first.register_full_backward_hook([&](auto&, auto& grad_inputs, auto& grad_outputs) {
    calls << grad_inputs.size() << " " << none(grad_inputs[0]) << " " << grad_outputs.size() << " "
          << none(grad_outputs[0]);
  });
  sum(first(Variable(pattern({2, 3})))).backward();
  CHECK(calls.str() == golden("no input gradient"));
  hook.remove();
  sum(first(Variable(pattern({2, 3})))).backward();
  CHECK(calls.str() == golden("no input gradient"));
  first.register_full_backward_hook([](auto&, auto& grad_inputs, auto&) {
    grad_inputs[0] = Variable(ops::ones({2, 3}, f32));
  });
  CHECK_THROWS_WITH_AS(sum(first(Variable(pattern({2, 3})))).backward(),
                       doctest::Contains("no gradient arrived here"), AutogradError);
}

TEST_CASE("hooks: replacements that do not fit are refused, and results are printed") {
  struct Two : nn::Layer<Two> {
    std::pair<Variable, Variable> forward(const Variable& x) { return {x, x}; }
  };
  Two two;
  const Variable x(pattern({2, 3}));
  std::ostringstream out;
  two.register_forward_hook([&](auto&, auto&, auto& results) { out << results; });
  two(x);
  CHECK(out.str() == "[(2, 3) f32 on cpu, (2, 3) f32 on cpu]");
  HookHandle kept = two.register_forward_hook([](auto&, auto&, auto&) { return Variable(); });
  CHECK(two(x).first.is_same(x));
  two.register_forward_hook([](auto&, auto&, auto& results) { return results[0]; });
  CHECK_THROWS_WITH_AS(two(x), "a hook returned 1 Variables for a call with 2", ValueError);
  Two other;
  other.register_forward_pre_hook([](auto&, auto& in) { in[1] = in[0]; });
  CHECK_THROWS_WITH_AS(other(x), "a hook: Variable 1 of a call with 1", IndexError);
}
