// Every optimizer, clipping, gradient scaling and averages on a device: the CPU's values, to rounding.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "nn/average.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/rules/adadelta.h"
#include "optim/rules/adafactor.h"
#include "optim/rules/adagrad.h"
#include "optim/rules/adam.h"
#include "optim/rules/adamax.h"
#include "optim/rules/lamb.h"
#include "optim/rules/lbfgs.h"
#include "optim/rules/lion.h"
#include "optim/rules/muon.h"
#include "optim/rules/nadam.h"
#include "optim/rules/radam.h"
#include "optim/rules/rmsprop.h"
#include "optim/rules/sgd.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;

namespace {

using Make = std::function<std::unique_ptr<optim::Optimizer>(const ParameterList&)>;

template <class O>
Make maker(typename O::Options options) {
  return [options](const ParameterList& p) { return std::make_unique<O>(p, options); };
}

/// Two matrices, so that Muon takes them too.
struct Net {
  explicit Net(Device device) {
    nn::materialize(layers, device, 7);
    manual_seed(9);
    x = randn({12, 6}).to(device);
    y = randn({12, 3}).to(device);
  }
  Variable loss() { return mean(square(layers(x) - Variable(y))); }
  std::vector<Tensor> values() const {
    std::vector<Tensor> all;
    for (const NamedParameter& p : layers.parameters()) all.push_back(p.variable.value().to(cpu()).clone());
    return all;
  }

  nn::Sequential layers{nn::Linear(6, 8, false), nn::GELU(), nn::Linear(8, 3, false)};
  Tensor x, y;
};

void check_alike(const std::vector<Tensor>& there, const std::vector<Tensor>& here, double tolerance) {
  REQUIRE(there.size() == here.size());
  for (size_t i = 0; i < here.size(); ++i) CHECK(test::relative_difference(there[i], here[i]) < tolerance);
}

/// The parameters after some steps, clipped; half way the state goes through the CPU, as by a checkpoint.
std::vector<Tensor> train(const Make& make, Device device) {
  Net net(device);
  const std::unique_ptr<optim::Optimizer> optimizer = make(net.layers.parameters());
  for (int step = 0; step < 6; ++step) {
    optimizer->zero_grad();
    net.loss().backward();
    const optim::ClipCoefficient clip = optim::clip_coefficient(net.layers.parameters(), 0.2);
    CHECK(clip.norm.device() == device);
    optimizer->step({.clip = clip.coefficient});
    if (step != 2) continue;
    optim::OptimizerState saved = optimizer->state();
    for (NamedTensor& entry : saved.tensors) entry.tensor = entry.tensor.to(cpu()).clone();
    optimizer->load_state(saved);
  }
  return net.values();
}

}  // namespace

TEST_CASE("cuda: every optimizer with clipped gradients gives the CPU's parameters") {
  const Device device = test::device_under_test();
  const std::vector<std::pair<std::string, Make>> cases = {
      {"SGD", maker<optim::SGD>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true})},
      {"Adam", maker<optim::Adam>({.lr = 0.01})},
      {"AdamW", maker<optim::AdamW>({.lr = 0.01, .weight_decay = 0.1})},
      {"AdamW amsgrad", maker<optim::AdamW>({.lr = 0.01, .amsgrad = true})},
      {"Adamax", maker<optim::Adamax>({.lr = 0.01})},
      {"NAdam", maker<optim::NAdam>({.lr = 0.01})},
      {"RAdam", maker<optim::RAdam>({.lr = 0.01})},
      {"RMSprop", maker<optim::RMSprop>({.lr = 0.01})},
      {"Adagrad", maker<optim::Adagrad>({.lr = 0.05})},
      {"Adadelta", maker<optim::Adadelta>({.lr = 1.0})},
      {"Lion", maker<optim::Lion>({.lr = 0.001})},
      {"Lamb", maker<optim::Lamb>({.lr = 0.01, .weight_decay = 0.1})},
      {"Adafactor", maker<optim::Adafactor>({.lr = 0.05, .weight_decay = 0.01})},
      {"Muon", maker<optim::Muon>({.lr = 0.02, .weight_decay = 0.1})},
  };
  for (const auto& [name, make] : cases) {
    CAPTURE(name);
    const std::vector<Tensor> there = train(make, device);
    check_alike(there, train(make, cpu()), 1e-4);
    const std::vector<Tensor> again = train(make, device);
    for (size_t i = 0; i < there.size(); ++i) CHECK(test::have_same_bits(there[i], again[i]));
  }
}

TEST_CASE("cuda: L-BFGS with a line search gives the CPU's loss") {
  const auto run = [](Device device) {
    Net net(device);
    optim::LBFGS lbfgs(net.layers.parameters(),
                       {.max_iter = 6, .line_search_fn = optim::LineSearch::strong_wolfe});
    lbfgs.step([&] {
      lbfgs.zero_grad();
      const Variable loss = net.loss();
      loss.backward();
      return loss;
    });
    return net.loss().item();
  };
  CHECK(std::abs(run(test::device_under_test()) - run(cpu())) < 1e-4);
}

TEST_CASE("cuda: norms of every power, and gradients clipped in place") {
  const Device device = test::device_under_test();
  Net here(cpu()), there(device);
  here.loss().backward();
  there.loss().backward();
  for (const double p : {1.0, 2.0, 3.0, HUGE_VAL}) {
    const double expected = optim::grad_norm(here.layers.parameters(), {.p = p}).item();
    CHECK(std::abs(optim::grad_norm(there.layers.parameters(), {.p = p}).item() - expected) <
          1e-5 * expected);
  }
  for (Net* net : {&here, &there}) optim::clip_grad_norm(net->layers.parameters(), 0.05);
  CHECK(std::abs(optim::grad_norm(there.layers.parameters()).item() - 0.05) < 1e-5);
  const auto gradient = [](Net& net) { return net.layers.parameters()[0].variable.grad().value(); };
  CHECK(test::relative_difference(gradient(there), gradient(here)) < 1e-6);
  gradient(there).narrow(0, 0, 1).copy_from(ops::full({1, 6}, HUGE_VAL, f32).to(device));
  CHECK_THROWS_AS(optim::grad_norm(there.layers.parameters(), {.error_if_nonfinite = true}), NonFiniteError);
}

TEST_CASE("cuda: a scaled loss, its gradients unscaled, and a step that overflows") {
  const Device device = test::device_under_test();
  const auto run = [](Device where) {
    Net net(where);
    optim::AdamW adam(net.layers.parameters(), {.lr = 0.01});
    optim::GradScaler scaler({.initial_scale_power = 4, .hysteresis = 1});
    for (int step = 0; step < 3; ++step) {
      adam.zero_grad();
      net.loss().backward(scaler.scale());
      if (step == 1) {
        const Tensor gradient = net.layers.parameters()[1].variable.grad().value();
        gradient.copy_from(ops::full(gradient.shape(), HUGE_VAL, f32).to(where));
      }
      CHECK(scaler.step(adam) == (step != 1));
      if (step == 1) CHECK(to_string(*scaler.first_nonfinite()).find("'2.weight'") != std::string::npos);
    }
    CHECK(scaler.scale().item() == 8);
    return net.values();
  };
  check_alike(run(device), run(cpu()), 1e-5);
}

TEST_CASE("cuda: an exponential moving average, computed with and restored") {
  const Device device = test::device_under_test();
  const auto run = [](Device where) {
    Net net(where);
    nn::ExponentialMovingAverage average(net.layers, {.decay = 0.5});
    optim::SGD sgd(net.layers.parameters(), {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      net.loss().backward();
      sgd.step();
      average.update();
    }
    const std::vector<Tensor> own = net.values();
    std::vector<Tensor> averaged;
    {
      const nn::ExponentialMovingAverage::Swapped swapped(average);
      averaged = net.values();
    }
    for (size_t i = 0; i < own.size(); ++i) CHECK(test::have_same_bits(net.values()[i], own[i]));
    return averaged;
  };
  check_alike(run(device), run(cpu()), 1e-5);
}
