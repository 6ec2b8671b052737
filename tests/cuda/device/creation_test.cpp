// Creation functions, printing, gradcheck and anomaly detection for tensors of a CUDA device, which
// TESSERA_TEST_DEVICE names: the CPU's results.
#include <cmath>

#include "autograd/debug/anomaly.h"
#include "autograd/debug/gradcheck.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "nn/init.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/literal.h"
#include "tensor/ops/creation/random.h"
#include "tensor/printing/format.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;

namespace {

/// A function that makes a tensor gives the same values on both devices.
template <class Make>
void check_made(const Make& make) {
  const Device device = device_under_test();
  manual_seed(4);
  const Tensor here = make(cpu());
  manual_seed(4);
  const Tensor there = make(device);
  CHECK(there.device() == device);
  CHECK(have_same_bits(here, there));
}

}  // namespace

TEST_CASE("cuda: creation functions give the CPU's values") {
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, u8}) {
    CAPTURE(dtype);
    check_made([&](Device on) { return ops::zeros({2, 3}, dtype, on); });
    check_made([&](Device on) { return ops::ones({2, 3}, dtype, on); });
    check_made([&](Device on) { return ops::full({2, 3}, 7, dtype, on); });
    check_made([&](Device on) { return ops::eye(4, 3, dtype, on); });
    check_made([&](Device on) { return ops::arange(3, 203, 7, dtype, on); });
    check_made([&](Device on) { return ops::one_hot(Tensor::from<int64_t>({2, 0, 1}).to(on), 4, dtype); });
    check_made([&](Device on) { return randperm(100, dtype, on); });
    check_made([&](Device on) { return randint(0, 90, {31}, dtype, on); });
    check_made([&](Device on) { return tensor({{1, 2}, {3, 4}}, dtype, on); });
    if (!is_floating(dtype)) continue;
    check_made([&](Device on) { return ops::arange(-1.0, 3.0, 0.1, dtype, on); });
    check_made([&](Device on) { return ops::linspace(-1, 0.3, 101, dtype, on); });
    check_made([&](Device on) { return randn({33}, dtype, on); });
    check_made([&](Device on) { return bernoulli(ops::full({50}, 0.4, dtype, on)); });
    check_made([&](Device on) { return multinomial(ops::arange(1, 9, 1, dtype, on), 5); });
  }
  check_made([&](Device on) { return ops::ones({5}, boolean, on); });
  check_made([&](Device on) { return ops::one_hot(Tensor::from<int64_t>({2, 0, 1}).to(on), 4, boolean); });
}

TEST_CASE("cuda: weighted draws have the CPU's bits, and wrong weights are found late") {
  const Device device = device_under_test();
  const Tensor weights = Tensor::empty({5, 70}, f64);
  ops::fill_uniform(weights, 3);
  weights.narrow(1, 30, 5).fill_(0.0);
  for (const bool replacement : {true, false})
    CHECK(have_same_bits(ops::multinomial(weights.to(device), 40, 9, replacement),
                         ops::multinomial(weights, 40, 9, replacement)));
  const Tensor kept = weights.to(device);
  ops::multinomial(kept, 3, 1, false);
  CHECK(have_same_bits(kept, weights));
  const auto error = [&](const Tensor& wrong, int64_t count, bool replacement) {
    return error_of([&] {
      ops::multinomial(wrong.to(device), count, 1, replacement);
      synchronize(device);
    });
  };
  says(error(Tensor::from<double>({1, 2, -0.5, 1}).view({2, 2}), 1, true),
       "multinomial: expected finite weights of at least 0, got -0.5 at (1, 0)");
  says(error(Tensor::from<double>({1, 2, 0, 0}).view({2, 2}), 1, true),
       "multinomial: row 1 has 0 positive weights, too few for what is drawn, expected at least 1");
  says(error(Tensor::from<double>({1, 2, 0}), 3, false), "row 0 has 2 positive weights");
  CHECK(error_of([&] { synchronize(device); }) == "");
}

TEST_CASE("cuda: initializers that compute on the host fill a parameter of the device") {
  for (const init::Initializer& initializer :
       {init::orthogonal(2), init::elementwise([](int64_t i, const Shape&) { return 0.5 * i; }, "halves"),
        init::kaiming_uniform(), init::xavier_normal()}) {
    check_made([&](Device on) {
      const Tensor out = Tensor::empty({6, 9}, f32, on);
      initializer.fill(out, 3, out.shape(), 0);
      return out;
    });
  }
}

TEST_CASE("cuda: a module moves to the device, and its state dict comes back") {
  const Device device = device_under_test();
  nn::Linear net(4, 3);
  nn::materialize(net, cpu(), 1);
  const Tensor weight = net.parameters()[0].variable.value().clone();
  net.to(device);
  CHECK(net.parameters()[0].variable.device() == device);
  CHECK(have_same_bits(net.parameters()[0].variable.value(), weight));
  nn::Linear other(4, 3);
  nn::materialize(other, device, 2);
  other.load_state_dict(net.state_dict());
  CHECK(have_same_bits(other.parameters()[0].variable.value(), weight));
  net.to(cpu());
  CHECK(have_same_bits(net.parameters()[0].variable.value(), weight));
}

TEST_CASE("cuda: a tensor of the device is printed as the CPU's, with its device") {
  const Device device = device_under_test();
  const Tensor x = ops::linspace(0, 1, 7);
  CHECK(format_values(x.to(device)) == format_values(x));
  says(to_string(x.to(device)), to_string(device));
  says(to_string(x.to(device)), "0.1667");
  const Tensor large = ops::arange(5000, i64);
  CHECK(format_values(large.to(device)) == format_values(large));
}

TEST_CASE("cuda: gradcheck compares gradients on the device") {
  const Device device = device_under_test();
  const std::vector<Variable> inputs{Variable::leaf(ops::linspace(0.3, 1.2, 6, f64, device))};
  const CheckedFunction good = [](std::span<const Variable> in) {
    return std::vector<Variable>{exp(in[0]) * in[0]};
  };
  CHECK(gradcheck(good, inputs).passed);
  CHECK(gradgradcheck(good, inputs).passed);
  const CheckedFunction wrong = [](std::span<const Variable> in) {
    return std::vector<Variable>{in[0] * Variable(in[0].value())};
  };
  const GradcheckResult result = gradcheck(wrong, inputs);
  CHECK(!result.passed);
  says(result.message, "gradient of input 0");
}

TEST_CASE("cuda: anomaly detection names the element that is NaN") {
  const Device device = device_under_test();
  const AnomalyMode searching;
  const Variable x = Variable::leaf(tensor({1.0, 4.0, -1.0}, f32, device));
  says(error_of([&] { sqrt(x); }), "produced NaN at element (2,)");
  CHECK(error_of([&] { exp(x); }).empty());
}
