// Parameters that a module's calls compute: the tree, state dicts, materialize, threads, checkpointing,
// errors.

#include "nn/parametrize/parametrization.h"

#include <doctest/doctest.h>

#include <sstream>
#include <thread>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "nn/checkpoint_modules.h"
#include "nn/clone.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "nn/parametrize/norms.h"
#include "nn/save.h"
#include "nn/summary.h"
#include "tensor/functions.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/reduction.h"
#include "tests/nn/golden_net.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using module_goldens::pattern;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& in = add<nn::Linear>("in", {.in = 3, .out = 4});
  nn::Linear& out = add<nn::Linear>("out", {.in = 4, .out = 2});
  Variable forward(const Variable& x) const { return out(tanh(in(x))); }
};

/// Both norms.
struct Normed : Net {
  Normed() {
    nn::weight_norm(in);
    nn::spectral_norm(out);
  }
};

/// The README's example: the exponential of a parameter.
struct Positive : nn::Parametrization {
  Variable& original;
  explicit Positive(const nn::Module::Entry& weight)
      : original(parameter_from(weight, "original",
                                [](const Tensor& w, uint64_t) { return ops::log(ops::abs(w)); })) {}
  Variable compute() override { return exp(original); }
};

template <class M>
M made(uint64_t seed = 1) {
  M net;
  nn::materialize(net, cpu(), seed);
  return net;
}

/// The module in evaluation, or in training.
template <class M>
M& evaluated(M& module, bool training = false) {
  module.train(training);
  return module;
}

/// The gradients of a loss, in the order of the parameters.
std::vector<Tensor> gradients(nn::Module& root, const std::function<Variable()>& result) {
  root.zero_grad();
  sum(square(result())).backward();
  std::vector<Tensor> all;
  for (auto& [name, p] : root.named_parameters()) all.push_back(p.grad().value().clone());
  return all;
}

}  // namespace

TEST_CASE("a parametrised layer: materialize gives the values of the plain one, in the same seed") {
  const Net plain = made<Net>(7);
  Normed normed = made<Normed>(7);
  normed.eval();
  CHECK(array_equal(normed.out.get_parameter("parametrizations.weight.original").value(),
                    plain.out.weight.value()));
  CHECK(array_equal(normed.in.get_parameter("parametrizations.weight.original1").value(),
                    plain.in.weight.value()));
  const Variable x(pattern({5, 3}));
  CHECK(allclose(normed.in(x).value(), plain.in(x).value(), 1e-5, 1e-6));
  // The singular vectors are those of the values: 15 iterations more change little.
  const double first = sum(square(normed(x))).item();
  for (int i = 0; i < 15; ++i) evaluated(normed, true)(x);
  CHECK(sum(square(evaluated(normed)(x))).item() == doctest::Approx(first).epsilon(1e-3));

  // Where the layer has values, they are those as well.
  Net later = made<Net>(7);
  nn::weight_norm(later.in);
  CHECK(array_equal(later.in.get_parameter("parametrizations.weight.original0").value(),
                    normed.in.get_parameter("parametrizations.weight.original0").value()));
}

TEST_CASE("a parametrised layer: between calls the weight is undefined, and listed nowhere") {
  Normed net = made<Normed>();
  const Variable x(pattern({5, 3}));
  CHECK(!net.in.weight.defined());
  std::string inside;
  net.in.register_forward_hook([&](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) {
    inside = text(net.in.weight.shape(), net.in.weight.requires_grad());
  });
  net(x);
  CHECK(inside == "(4, 3)true");
  CHECK(!net.in.weight.defined());
  CHECK(net.in.parameters().size() == 3);
  CHECK(net.named_buffers().size() == 2);
  CHECK_THROWS_AS(net.get_parameter("in.weight"), ValueError);
  CHECK_THROWS_AS(net.in(Variable(pattern({5, 2}))), ShapeError);
  CHECK(!net.in.weight.defined());
  std::ostringstream text_of_net;
  text_of_net << net.in;
  CHECK(
      text_of_net.str() ==
      "Linear(\n  3 -> 4\n  (parametrizations): Parametrizations(\n    (weight): WeightNorm(dim 0)\n  )\n)");
  nn::Module& as_module = net;
  CHECK(nn::summarize(as_module, [&] {
          net(Variable(Tensor::empty({5, 3}, f32, meta())));
        }).parameters == 4 + 12 + 4 + 8 + 2);
}

TEST_CASE("a parametrised layer: gradients of everything that is trained are right") {
  Normed net;
  net.to(f64);
  nn::materialize(net, cpu(), 3);
  net.eval();  // the singular vectors stay, and are constants for the gradient, so s is not differentiated
  std::vector<Variable> inputs;
  for (const NamedParameter& p : net.parameters()) inputs.push_back(p.variable);
  const Variable x(ops::cast(pattern({5, 3}), f64));
  const auto result = gradcheck([&](std::span<const Variable>) { return std::vector{net(x)}; }, inputs);
  CHECK_MESSAGE(result.passed, result.message);
  CHECK(inputs.size() == 5);
}

TEST_CASE("a parametrised layer: states are saved, loaded and copied") {
  const TemporaryFolder folder;
  Normed net = made<Normed>(1), other = made<Normed>(2);
  const Variable x(pattern({5, 3}));
  net(x);
  const std::string path = folder / "net.safetensors";
  nn::save(net, path);
  nn::load(other, path);
  CHECK(array_equal(evaluated(other)(x).value(), evaluated(net)(x).value()));
  CHECK(net.state_dict()[0].name == "in.bias");
  CHECK_THROWS_AS(other.load_state_dict(made<Net>().state_dict()), ValueError);

  Net applied = made<Net>(4);  // after its construction
  nn::register_parametrization<Positive>(applied.in, "weight");
  nn::weight_norm(applied.out, {.dim = 1}).eval();
  const Net copy = nn::clone(applied);
  CHECK(array_equal(copy(x).value(), applied(x).value()));
  applied.in.get_parameter("parametrizations.weight.original").value().zero();
  CHECK(!array_equal(copy(x).value(), applied(x).value()));
}

TEST_CASE("a parametrised layer: spectral norm iterates in training only, each call once") {
  Normed net = made<Normed>();
  const Variable x(pattern({5, 3}));
  const Variable weight = net.out.get_parameter("parametrizations.weight.original");
  const Variable u = net.out.get_buffer("parametrizations.weight.0._u");
  weight.value().copy_from(pattern({2, 4}));
  const Tensor before = u.value().clone();
  evaluated(net)(x);
  CHECK(array_equal(u.value(), before));
  evaluated(net, true)(x);
  CHECK(!array_equal(u.value(), before));
  for (int i = 0; i < 30; ++i) net(x);
  Tensor computed;
  net.out.register_forward_hook([&](nn::Module&, const nn::CallVariables&, const nn::CallVariables&) {
    computed = net.out.weight.value();
  });
  net(x);
  CHECK(allclose(ops::mv(computed.transpose(0, 1), u.value()),
                 net.out.get_buffer("parametrizations.weight.0._v").value(), 1e-4, 1e-5));  // s = 1
}

TEST_CASE("a parametrised layer: removed, it is the plain layer again") {
  Normed net = made<Normed>();
  const Variable x(pattern({5, 3}));
  const Tensor trained = net(x).value();
  nn::remove_parametrizations(net.in);
  nn::remove_parametrizations(net.out);
  CHECK(array_equal(net(x).value(), trained));  // what the last call computed: no iteration since
  CHECK(net.in.weight.requires_grad());
  CHECK(net.parameters().size() == 4);
  sum(net(x)).backward();
  CHECK(net.in.weight.grad().shape() == Shape{4, 3});
  Net plain = made<Net>(2);
  plain.load_state_dict(net.state_dict());

  // On meta it is as if nothing had been.
  Normed on_meta;
  nn::remove_parametrizations(on_meta.in);
  nn::remove_parametrizations(on_meta.out, "weight", /*leave_parametrized=*/false);
  nn::materialize(on_meta, cpu(), 7);
  CHECK(array_equal(on_meta(x).value(), made<Net>(7)(x).value()));

  // Without leave_parametrized it has what was trained.
  Normed again = made<Normed>(7);
  nn::remove_parametrizations(again.out, "weight", false);
  CHECK(array_equal(again.out.weight.value(), made<Net>(7).out.weight.value()));
  again.in.set_requires_grad(false);
  nn::remove_parametrizations(again.in);
  CHECK(!again.in.weight.requires_grad());
}

TEST_CASE("a parametrised layer: checkpointed, it has the same gradients") {
  Normed plain = made<Normed>(), inside = made<Normed>(), itself = made<Normed>();
  const Variable x = Variable::leaf(pattern({5, 3}));
  inside.set_checkpointed(true);
  itself.in.set_checkpointed(true);
  itself.out.set_checkpointed(true);
  const auto expected = gradients(plain, [&] { return plain(x); });
  for (Normed* net : {&inside, &itself}) {
    const auto found = gradients(*net, [&] { return (*net)(x); });
    for (size_t i = 0; i < expected.size(); ++i) CHECK(array_equal(found[i], expected[i]));
  }
}

TEST_CASE("a parametrised layer: several threads call it, one after another") {
  Normed net = made<Normed>();
  net.eval();
  const Variable x(pattern({5, 3}));
  const Tensor expected = net(x).value();
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) wrong[t] += !array_equal(net(x).value(), expected);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("a parametrised layer: half precision and moves") {
  Normed net = made<Normed>();
  const Variable x(pattern({5, 3}));
  const Tensor expected = evaluated(net)(x).value();
  Normed half = made<Normed>();
  nn::use_mixed_precision(half, bf16);
  const Variable y = evaluated(half)(x.to(bf16));
  CHECK(y.dtype() == bf16);
  CHECK(allclose(y.value().to(f32), expected, 0.05, 0.02));
  CHECK(message_of<ConfigError>([&] { nn::remove_parametrizations(half.in); }) ==
        "remove_parametrizations: 'weight' of Linear 'in' is in mixed precision");
  net.to(cpu()).to(f64);
  CHECK(net(x.to(f64)).dtype() == f64);
}

TEST_CASE("a parametrisation: bad input") {
  Net net = made<Net>();
  CHECK(message_of<ValueError>([&] { nn::weight_norm(net.in, {.name = "weights"}); }) ==
        "register_parametrization: Linear 'in' has no parameter 'weights': expected one of its own, weight, "
        "bias");
  CHECK_THROWS_AS(nn::weight_norm(net, {.name = "in.weight"}), ValueError);
  CHECK_THROWS_AS(nn::weight_norm(net.in, {.dim = 2}), IndexError);
  CHECK_THROWS_AS(nn::spectral_norm(net.in, {.dim = -3}), IndexError);
  CHECK(message_of<ShapeError>([&] { nn::spectral_norm(net.in, {.name = "bias"}); }) ==
        "spectral_norm: expected a parameter of 2 dimensions or more, got 'bias' (4,) f32 on cpu");
  CHECK_THROWS_AS(nn::spectral_norm(net.in, {.power_iterations = 0}), ValueError);
  CHECK_THROWS_AS(nn::spectral_norm(net.in, {.eps = 0}), ValueError);
  CHECK(message_of<ValueError>([&] { nn::remove_parametrizations(net.in); }) ==
        "remove_parametrizations: 'weight' of Linear 'in' is not parametrised");
  CHECK(net.in.weight.defined());  // nothing happened
  CHECK(net.in.child_entries().empty());

  nn::weight_norm(net.in);
  CHECK_THROWS_AS(nn::spectral_norm(net.in), ConfigError);
  CHECK_THROWS_AS(nn::weight_norm(net.in), ConfigError);
  CHECK_THROWS_AS(nn::remove_parametrizations(net.in, "bias"), ValueError);
  CHECK_THROWS_AS(nn::remove_parametrizations(net.in, "weight", false), ValueError);  // two originals

  struct Tied : nn::Layer<Tied> {
    nn::Linear& fc = add<nn::Linear>("fc", {.in = 3, .out = 3});
    Variable& head = share_parameter("head", fc.weight);
    Variable forward(const Variable& x) const { return x * head; }
  } tied;
  CHECK_THROWS_AS(nn::weight_norm(tied.fc), ConfigError);
  struct Bag : nn::Module {
    Variable& w = parameter("w", {2, 2}, init::ones());
  } bag;
  CHECK_THROWS_AS(nn::weight_norm(bag, {.name = "w"}), ConfigError);
  Net half = made<Net>();
  nn::use_mixed_precision(half, bf16);
  CHECK_THROWS_AS(nn::weight_norm(half.in), ConfigError);
}
