#include "optim/clip.h"

#include <doctest/doctest.h>

#include <json/value.h>

#include <cmath>
#include <limits>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/reduction.h"
#include "optim/rules/adam.h"
#include "tensor/cpu/isa.h"
#include "tensor/ops/training/multi_tensor.h"
#include "tensor/threads/parallel.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Parameters of zeros with these gradients, named "a", "b", ...
ParameterList with_gradients(std::initializer_list<Tensor> gradients) {
  ParameterList list;
  for (const Tensor& gradient : gradients) {
    const Variable p = Variable::parameter(Tensor::zeros(gradient.shape(), gradient.dtype()));
    p.set_grad(Variable(gradient.clone()));
    list.push_back({std::string(1, static_cast<char>('a' + list.size())), p});
  }
  return list;
}

/// n values of both signs and many magnitudes.
template <class T = float>
Tensor scattered(int64_t n) {
  Tensor x = Tensor::empty({n}, dtype_of<T>);
  uint32_t state = 12345;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    x.data<T>()[i] = static_cast<T>(std::ldexp(static_cast<float>(static_cast<int32_t>(state)), -31));
  }
  return x;
}

/// Restores the number of threads at the end of its scope.
struct ThreadCountScope {
  int threads = num_threads();
  ~ThreadCountScope() { set_num_threads(threads); }
};

}  // namespace

TEST_CASE("clipping: norms and clipped gradients equal PyTorch's") {
  const Goldens goldens("clipping.safetensors");
  CHECK(goldens.cases().size() >= 6);
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const Json::Value options = goldens.options(name);
    const ParameterList list =
        with_gradients({goldens.tensor(name + "/in_a"), goldens.tensor(name + "/in_b")});
    if (options.isMember("value")) {
      optim::clip_grad_value(list, options["value"].asDouble());
    } else {
      const double p = options["p"].isString() ? infinity : options["p"].asDouble();
      const Tensor norm = optim::clip_grad_norm(list, options["max_norm"].asDouble(), {.p = p});
      CHECK(norm.shape() == Shape{});
      CHECK(norm.item() == doctest::Approx(goldens.tensor(name + "/norm").item()).epsilon(1e-14));
    }
    CHECK(relative_difference(list[0].variable.grad().value(), goldens.tensor(name + "/out_a")) < 1e-14);
    CHECK(relative_difference(list[1].variable.grad().value(), goldens.tensor(name + "/out_b")) < 1e-14);
  }
}

TEST_CASE("clipping: a small norm leaves gradients as they are, missing ones count 0") {
  const ParameterList list =
      with_gradients({Tensor::from({3.0f}), Tensor::from({4.0f}), Tensor::from({100.0f})});
  list[2].variable.set_grad({});
  CHECK(optim::clip_grad_norm(list, 5.1).item() == 5.0);
  CHECK(list[0].variable.grad().item() == 3.0);
  CHECK(optim::clip_grad_norm(list, 2.5).item() == 5.0);
  CHECK(list[0].variable.grad().item() == static_cast<double>(3.0f * static_cast<float>(2.5 / (5.0 + 1e-6))));
  CHECK(optim::grad_norm(with_gradients({}), {}).item() == 0.0);
}

TEST_CASE("clipping: the bits of a norm depend on neither threads nor instruction set") {
  const ThreadCountScope scope;
  const ParameterList list =
      with_gradients({scattered(100003), scattered<double>(777), scattered(4096), scattered(1)});
  for (const double p : {1.0, 2.0, 3.0, infinity}) {
    CAPTURE(p);
    set_num_threads(1);
    const double expected = optim::grad_norm(list, {.p = p}).item();
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      CHECK(optim::grad_norm(list, {.p = p}).item() == expected);
    }
    for (const kernels::cpu::Isa isa : {kernels::cpu::Isa::baseline, kernels::cpu::Isa::avx2}) {
      const kernels::cpu::IsaScope isa_scope(isa);
      CHECK(optim::grad_norm(list, {.p = p}).item() == expected);
    }
  }
}

TEST_CASE("clipping: sums are in f64, where f32 would lose or overflow them") {
  Tensor large = Tensor::empty({100000}, f32);
  for (int64_t i = 0; i < large.numel(); ++i) large.data<float>()[i] = 1e30f;
  const double value = static_cast<double>(1e30f);
  CHECK(optim::grad_norm(with_gradients({large})).item() ==
        doctest::Approx(value * std::sqrt(1e5)).epsilon(1e-12));
  CHECK(ops::power_sums(std::vector<Tensor>{large}, 1.0).item() ==
        doctest::Approx(value * 1e5).epsilon(1e-12));
}

TEST_CASE("clipping: narrow and strided gradients") {
  const Tensor half = Tensor::from({bfloat16(3.0f), bfloat16(4.0f)});
  const Tensor strided = Tensor::from({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, {2, 3}).transpose(0, 1);
  const ParameterList list = with_gradients({half, strided});
  list[1].variable.set_grad(Variable(strided));
  CHECK(optim::grad_norm(list).item() == std::sqrt(25.0 + 91.0));
  optim::clip_grad_value(list, 3.5);
  CHECK(static_cast<float>(list[0].variable.grad().value().data<bfloat16>()[1]) == 3.5f);
  CHECK(strided.data<float>()[5] == 3.5f);  // the same storage as the gradient's
  CHECK(strided.data<float>()[2] == 3.0f);
}

TEST_CASE("clipping: a coefficient folded into the update has the bits of clipping in place") {
  const Tensor gradient = scattered(1000);
  const ParameterList in_place = with_gradients({gradient}), folded = with_gradients({gradient});
  optim::AdamW first(in_place, {.lr = 0.1}), second(folded, {.lr = 0.1});
  for (int step = 0; step < 3; ++step) {
    in_place[0].variable.set_grad(Variable(gradient.clone()));
    optim::clip_grad_norm(in_place, 0.5);
    first.step();
    const optim::ClipCoefficient clip = optim::clip_coefficient(folded, 0.5);
    CHECK(clip.coefficient.item() == doctest::Approx(0.5 / (clip.norm.item() + 1e-6)));
    second.step({.clip = clip.coefficient});
    CHECK(same_bits(folded[0].variable.grad().value(), gradient));
  }
  CHECK(same_bits(in_place[0].variable.value(), folded[0].variable.value()));
}

TEST_CASE("clipping: a non-finite gradient gives a non-finite norm") {
  for (const double p : {1.0, 2.0, 3.0, infinity}) {
    CAPTURE(p);
    Tensor bad = scattered(10000);
    bad.data<float>()[7777] = NAN;
    const ParameterList list = with_gradients({scattered(10), bad});
    CHECK(std::isnan(optim::grad_norm(list, {.p = p}).item()));
    CHECK_THROWS_WITH_AS(optim::clip_grad_norm(list, 1.0, {.p = p, .error_if_nonfinite = true}),
                         "grad_norm: the norm is nan; the first gradient that is not finite is that of 'b'",
                         NonFiniteError);
    CHECK(std::isfinite(list[0].variable.grad().value().data<float>()[0]));
    optim::clip_grad_norm(list, 1.0, {.p = p});
    CHECK(std::isnan(list[0].variable.grad().value().data<float>()[0]));
    bad.data<float>()[7777] = -INFINITY;
    CHECK(optim::grad_norm(with_gradients({bad}), {.p = p}).item() == infinity);
  }
}

TEST_CASE("clipping: limits out of range are refused") {
  const ParameterList list = with_gradients({Tensor::from({3.0f})});
  CHECK_THROWS_AS(optim::clip_grad_norm(list, -1.0), ValueError);
  CHECK_THROWS_AS(optim::clip_grad_norm(list, NAN), ValueError);
  CHECK_THROWS_AS(optim::grad_norm(list, {.p = 0.0}), ValueError);
  CHECK_THROWS_AS(optim::clip_grad_value(list, -1.0), ValueError);
  CHECK_THROWS_AS(ops::power_sums(std::vector<Tensor>{Tensor::zeros({2}, i64)}, 2.0), DTypeError);
  CHECK_THROWS_AS(ops::scale_in_place(std::vector<Tensor>{Tensor::zeros({2}, f32)}, Tensor::scalar(1.0f)),
                  DTypeError);
}

TEST_CASE("clipping: a gradient that create_graph passed to two leaves is scaled once for each") {
  ParameterList list = with_gradients({Tensor::zeros({2}, f32), Tensor::zeros({2}, f32)});
  list.zero_grad();
  Variable total;
  for (const NamedParameter& p : list) total = total.defined() ? add(total, p.variable) : p.variable;
  sum(total).backward({.create_graph = true});
  CHECK(optim::clip_grad_norm(list, 1.0).item() == 2.0);  // four ones
  for (const NamedParameter& p : list)
    for (int i = 0; i < 2; ++i)
      CHECK(p.variable.grad().value().data<float>()[i] == doctest::Approx(0.5).epsilon(1e-5));
}
