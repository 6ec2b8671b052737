// Activation functions with parameters: forms in place, random slopes and samples, refusals. Values and
// derivatives are compared with PyTorch's in tests/ops.
#include "autograd/functions/elementwise/activation_function.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/reduction.h"
#include "tensor/composed/activations.h"
#include "tensor/functions.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/literal.h"
#include "tensor/ops/elementwise/activation_function.h"

using namespace tessera;

namespace {

const double nan_value = std::numeric_limits<double>::quiet_NaN();

Tensor values(const Shape& shape) {
  const Tensor x = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = 4 * std::sin(2.3 * double(i + 1)) + 0.05;
  return x;
}

struct Form {
  const char* name;
  std::function<Variable(const Variable&)> function;
  std::function<void(const Variable&)> in_place;
  std::function<void(const Tensor&)> on_tensor;
};

std::vector<Form> forms() {
  return {
      {"leaky_relu", [](auto& x) { return leaky_relu(x, 0.2); }, [](auto& x) { leaky_relu_(x, 0.2); },
       [](auto& x) { leaky_relu_(x, 0.2); }},
      {"elu", [](auto& x) { return elu(x, 0.7); }, [](auto& x) { elu_(x, 0.7); },
       [](auto& x) { elu_(x, 0.7); }},
      {"selu", [](auto& x) { return selu(x); }, [](auto& x) { selu_(x); }, [](auto& x) { selu_(x); }},
      {"celu", [](auto& x) { return celu(x, 0.7); }, [](auto& x) { celu_(x, 0.7); },
       [](auto& x) { celu_(x, 0.7); }},
      {"mish", [](auto& x) { return mish(x); }, [](auto& x) { mish_(x); }, [](auto& x) { mish_(x); }},
      {"hardswish", [](auto& x) { return hardswish(x); }, [](auto& x) { hardswish_(x); },
       [](auto& x) { hardswish_(x); }},
      {"hardsigmoid", [](auto& x) { return hardsigmoid(x); }, [](auto& x) { hardsigmoid_(x); },
       [](auto& x) { hardsigmoid_(x); }},
      {"hardtanh", [](auto& x) { return hardtanh(x, -2, 1); }, [](auto& x) { hardtanh_(x, -2, 1); },
       [](auto& x) { hardtanh_(x, -2, 1); }},
      {"relu6", [](auto& x) { return relu6(x); }, [](auto& x) { relu6_(x); }, [](auto& x) { relu6_(x); }},
      {"threshold", [](auto& x) { return threshold(x, 1, -3); }, [](auto& x) { threshold_(x, 1, -3); },
       [](auto& x) { threshold_(x, 1, -3); }},
      {"rrelu", [](auto& x) { return rrelu(x); }, [](auto& x) { rrelu_(x); }, [](auto& x) { rrelu_(x); }},
      {"rrelu in training", [](auto& x) { return rrelu(x, 0.1, 0.4, true, 7); },
       [](auto& x) { rrelu_(x, 0.1, 0.4, true, 7); }, [](auto& x) { rrelu_(x, 0.1, 0.4, true, 7); }},
  };
}

}  // namespace

TEST_CASE("activation functions: in place, the values and the gradient of the function") {
  for (const Form& form : forms()) {
    INFO(std::string(form.name));
    const Variable plain = Variable::leaf(values({3, 5})), changed = Variable::leaf(values({3, 5}));
    const Variable expected = form.function(plain * 1.5), result = changed * 1.5;
    form.in_place(result);
    CHECK(array_equal(result.value(), expected.value()));
    sum(expected * expected).backward();
    sum(result * result).backward();
    CHECK(array_equal(changed.grad().value(), plain.grad().value()));
    const Tensor raw = values({3, 5}) * 1.5;
    const int64_t version = raw.version();
    form.on_tensor(raw);
    CHECK(array_equal(raw, expected.value()));
    CHECK(raw.version() > version);
    CHECK_THROWS_AS(form.in_place(plain), AutogradError);
    CHECK_THROWS_AS(form.on_tensor(zeros({3}).expand({2, 3})), ValueError);
    CHECK_THROWS_AS(form.on_tensor(zeros({3}, i64)), DTypeError);
  }
}

TEST_CASE("rrelu: slopes of a key are uniform within the bounds, and the gradient has them") {
  const Variable x = Variable::leaf(full({4000}, -1.0, f64));
  const Variable y = rrelu(x, 0.25, 0.75, true, 11);
  const Tensor slopes = -y.value();
  CHECK(slopes.min().item() >= 0.25);
  CHECK(slopes.max().item() < 0.75);
  CHECK(slopes.mean().item() == doctest::Approx(0.5).epsilon(0.02));
  CHECK(slopes.var().item() == doctest::Approx(0.25 / 12).epsilon(0.1));
  y.sum().backward();
  CHECK(array_equal(x.grad().value(), slopes));
  CHECK(array_equal(rrelu(x, 0.25, 0.75, true, 11).value(), y.value()));
  CHECK_FALSE(array_equal(rrelu(x, 0.25, 0.75, true, 12).value(), y.value()));
  CHECK(array_equal(rrelu(x, 0.25, 0.75, false, 11).value(), full({4000}, -0.5, f64)));
  const CheckedFunction function = [](std::span<const Variable> in) {
    return std::vector<Variable>{rrelu(in[0], 0.25, 0.75, true, 3) * in[0]};
  };
  const std::vector<Variable> inputs = {Variable::leaf(values({2, 3}))};
  const GradcheckResult first = gradcheck(function, inputs), second = gradgradcheck(function, inputs);
  CHECK_MESSAGE(first.passed, first.message);
  CHECK_MESSAGE(second.passed, second.message);
}

TEST_CASE("prelu: third derivatives, and the slope of a bf16 input") {
  const CheckedFunction function = [](std::span<const Variable> in) {
    const Variable y = prelu(in[0] * in[0] - 1.0, in[1]);
    return grad(y.sum(), {in[0], in[1]}, {.create_graph = true});
  };
  const std::vector<Variable> inputs = {Variable::leaf(values({2, 3}) * 0.3),
                                        Variable::leaf(tensor({0.1, 0.2, 0.3}, f64))};
  const GradcheckResult second = gradgradcheck(function, inputs);
  CHECK_MESSAGE(second.passed, second.message);
  const Variable x = Variable::leaf(values({8, 3}).to(bf16)), w = Variable::leaf(full({1}, 0.25, bf16));
  prelu(x, w).sum().backward();
  CHECK(x.grad().dtype() == bf16);
  CHECK(w.grad().value().to(f32).item() ==
        doctest::Approx(minimum(x.value().to(f32), 0).sum().item()).epsilon(0.01));
}

TEST_CASE("gumbel_softmax: probabilities that sharpen with tau, one-hot samples with their frequencies") {
  const Tensor weights = tensor({1.0, 2.0, 5.0}, f64).log();
  const Tensor x = weights.expand({20000, 3}).contiguous();
  const Tensor hard = gumbel_softmax(x, 1, true, -1, 5);
  CHECK(array_equal(hard.sum({1}), ones({20000}, f64)));
  CHECK(array_equal(hard * hard, hard));
  const Tensor frequencies = hard.mean({0});
  for (int64_t k = 0; k < 3; ++k)
    CHECK(frequencies[k].item() == doctest::Approx(weights[k].exp().item() / 8).epsilon(0.05));
  const Tensor soft = gumbel_softmax(x, 0.5, false, -1, 5);
  CHECK(soft.sum({1}).allclose(ones({20000}, f64)));
  CHECK(array_equal(soft.argmax(1), hard.argmax(1)));
  const Variable a = Variable::leaf(x.narrow(0, 0, 4).contiguous()), b = Variable::leaf(a.value().clone());
  const Tensor dy = values({4, 3});
  gumbel_softmax(a, 0.7, true, 1, 5).backward(dy);
  gumbel_softmax(b, 0.7, false, 1, 5).backward(dy);
  CHECK(a.grad().value().allclose(b.grad().value()));
  CHECK(b.grad().value().abs().max().item() > 0.01);
}

TEST_CASE("activation functions: refusals name the function, what it expects and what it got") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(leaky_relu(x, nan_value), ValueError);
  CHECK_THROWS_AS(elu(x, nan_value), ValueError);
  CHECK_THROWS_AS(celu(x, 0), ValueError);
  CHECK_THROWS_AS(celu(x, nan_value), ValueError);
  CHECK_THROWS_WITH_AS(hardtanh(x, 1, -1), "hardtanh: expected min <= max, got 1 and -1", ValueError);
  CHECK_THROWS_AS(hardtanh(x, nan_value, 1), ValueError);
  CHECK_THROWS_AS(softplus(x, 0.0), ValueError);
  CHECK_THROWS_AS(softplus(x, 1.0, nan_value), ValueError);
  CHECK_THROWS_AS(softshrink(x, -1), ValueError);
  CHECK_THROWS_AS(hardshrink(x, nan_value), ValueError);
  CHECK_THROWS_AS(threshold(x, nan_value, 0), ValueError);
  CHECK_THROWS_AS(threshold(x, 0, nan_value), ValueError);
  CHECK_THROWS_AS(rrelu(x, 0.5, 0.25), ValueError);
  CHECK_THROWS_AS(rrelu(x, 0.5, 0.25, true, 1), ValueError);
  CHECK_THROWS_AS(rrelu(zeros({3}, i64), 0.1, 0.2, true, 1), DTypeError);
  CHECK_THROWS_AS(gumbel_softmax(x, 0, false, -1, 1), ValueError);
  CHECK_THROWS_WITH_AS(hardswish(zeros({2}, i64)),
                       "hardswish: expected a floating dtype, got (2,) i64 on cpu", DTypeError);
  CHECK_THROWS_AS(prelu(x, ones({2})), ShapeError);
  CHECK_THROWS_AS(prelu(x, ones({3, 1})), ShapeError);
  CHECK_THROWS_AS(prelu(x, ones({3}, f64)), DTypeError);
  CHECK_THROWS_AS(softmin(x, 2), IndexError);
  CHECK_THROWS_AS(ops::activation_backward({ActivationKind::mish}, x, zeros({3})), ShapeError);
  CHECK_THROWS_AS(ops::sloped_relu(x, ones({4})), ShapeError);
  CHECK(std::isnan(hardtanh(tensor({nan_value}, f64)).item()));
}
