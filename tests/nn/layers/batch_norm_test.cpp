#include "nn/layers/batch_norm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "autograd/recompute/checkpoint.h"
#include "nn/clone.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "nn/save.h"
#include "nn/summary.h"
#include "tests/nn/golden_net.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;

namespace {

Tensor waves(const Shape& shape, double offset = 0) {
  const Tensor t = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = std::sin(0.7 * static_cast<double>(i) + offset) + 0.1 * static_cast<double>(i % 5);
  return t;
}
double at(const Variable& x, int64_t i) {
  return x.value().contiguous().data<double>()[i];
}

nn::BatchNorm1d layer_of(nn::BatchNormOptions options) {
  nn::BatchNorm1d layer(options);
  layer.to(f64);
  nn::materialize(layer, cpu(), 1);
  return layer;
}

}  // namespace

TEST_CASE("batch norm: names, buffers and three training steps are PyTorch's") {
  nn::BatchNorm2d layer({.num_features = 3, .epsilon = 1e-3, .momentum = 0.2});
  nn::materialize(layer, cpu(), 1);
  std::string names;
  for (const NamedTensor& entry : layer.state_dict()) names += entry.name + " ";
  CHECK(names == module_goldens::golden("batch_norm state") + " ");
  module_goldens::fill_parameters(layer);
  Variable y;
  for (int step = 0; step < 3; ++step) {
    const Tensor x = module_goldens::pattern({2, 3, 2, 2});
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] *= static_cast<float>(1 + step * (i % 3));
    y = layer(Variable(x));
  }
  module_goldens::check_close(y.value(), "batch_norm y");
  module_goldens::check_close(layer.running_mean->value(), "batch_norm running_mean");
  module_goldens::check_close(layer.running_var->value(), "batch_norm running_var");
  CHECK(layer.num_batches_tracked->item_i64() == 3);
  layer.eval();
  module_goldens::check_close(layer(Variable(module_goldens::pattern({2, 3, 2, 2}))).value(),
                              "batch_norm eval");
  CHECK(layer.num_batches_tracked->item_i64() == 3);
}

TEST_CASE("batch norm: without momentum the running statistics are averages over all calls") {
  const nn::BatchNorm1d layer = layer_of({.num_features = 2, .momentum = {}});
  double mean = 0;
  for (int call = 0; call < 3; ++call) {
    const Tensor x = waves({4, 2}, call);
    layer(Variable(x));
    for (int64_t n = 0; n < 4; ++n) mean += x.data<double>()[2 * n] / 12;
  }
  CHECK(at(*layer.running_mean, 0) == doctest::Approx(mean).epsilon(1e-12));
  layer.reset_running_stats();
  CHECK(at(*layer.running_mean, 0) == 0);
  CHECK(at(*layer.running_var, 1) == 1);
  CHECK(layer.num_batches_tracked->item_i64() == 0);
}

TEST_CASE("batch norm: neither affine nor tracked, evaluation normalizes by its own input") {
  nn::BatchNorm1d layer = layer_of({.num_features = 3, .affine = false, .track_running_stats = false});
  CHECK(layer.state_dict().empty());
  CHECK(layer.running_mean == nullptr);
  const Variable x(waves({5, 3}));
  const Variable trained = layer(x);
  layer.eval();
  const Variable evaluated = layer(x);
  for (int64_t i = 0; i < 15; ++i) CHECK(at(trained, i) == at(evaluated, i));
}

TEST_CASE("batch norm: norm_relu is relu of the norm, with its gradients, in training and evaluation") {
  nn::BatchNorm1d layer = layer_of({.num_features = 4});
  for (const bool training : {true, false}) {
    layer.train(training);
    const Variable x = Variable::leaf(waves({3, 4, 20})), z = Variable::leaf(x.value());
    const Variable fused = layer.norm_relu(x);
    sum(fused * fused).backward();
    const Tensor weight_gradient = layer.weight->grad().value().clone();
    layer.zero_grad();
    const Variable composed = relu(layer(z));
    sum(composed * composed).backward();
    for (int64_t i = 0; i < x.numel(); ++i) {
      CHECK(at(fused, i) == doctest::Approx(at(composed, i)).epsilon(training ? 1e-12 : 0.1));
      CHECK(std::abs(at(x.grad(), i) - at(z.grad(), i)) < 1e-10);
    }
    for (int64_t c = 0; c < 4; ++c)
      CHECK(at(layer.weight->grad(), c) == doctest::Approx(at(Variable(weight_gradient), c)).epsilon(1e-10));
    layer.zero_grad();
  }
}

TEST_CASE(
    "batch norm: the rerun of a checkpointed call changes no running statistic, and gives the same "
    "gradient") {
  const nn::BatchNorm1d plain = layer_of({.num_features = 3}), other = layer_of({.num_features = 3});
  const Variable x = Variable::leaf(waves({6, 3})), z = Variable::leaf(x.value());
  sum(square(plain(x)) * x).backward();
  const Variable y = checkpoint([&](const Variable& in) { return square(other(in)) * in; }, z);
  sum(y).backward();
  CHECK(other.num_batches_tracked->item_i64() == 1);
  for (int64_t c = 0; c < 3; ++c) CHECK(at(*other.running_mean, c) == at(*plain.running_mean, c));
  for (int64_t i = 0; i < x.numel(); ++i) CHECK(at(z.grad(), i) == doctest::Approx(at(x.grad(), i)));
}

TEST_CASE("batch norm: buffers are saved, loaded and cloned; a plan on meta changes none") {
  const TemporaryFolder folder;
  nn::BatchNorm1d layer({.num_features = 2});
  nn::materialize(layer, cpu(), 1);
  layer(Variable(module_goldens::pattern({4, 2})));
  nn::save(layer, folder / "norm.safetensors");
  nn::BatchNorm1d loaded({.num_features = 2});
  nn::materialize(loaded, cpu(), 2);
  nn::load(loaded, folder / "norm.safetensors");
  const nn::BatchNorm1d copy = nn::clone(layer);
  for (const nn::BatchNorm1d* other : {static_cast<const nn::BatchNorm1d*>(&loaded), &copy}) {
    for (int64_t c = 0; c < 2; ++c) {
      CHECK(other->running_mean->value().data<float>()[c] == layer.running_mean->value().data<float>()[c]);
      CHECK(other->running_var->value().data<float>()[c] == layer.running_var->value().data<float>()[c]);
    }
    CHECK(other->num_batches_tracked->item_i64() == 1);
  }
  const nn::Summary plan = nn::summary(layer, {8, 2});
  CHECK(plan.rows[0].outputs[0] == Shape{8, 2});
  CHECK(layer.num_batches_tracked->item_i64() == 1);
}

TEST_CASE("batch norm: inputs that do not fit are errors that name the layer") {
  nn::Sequential net{nn::Linear(3, 4), nn::BatchNorm1d(5)};
  nn::materialize(net, cpu(), 1);
  CHECK_THROWS_WITH_AS(net(Variable(Tensor::zeros({2, 3}))),
                       doctest::Contains("nn::BatchNorm1d '1': expected an input"), ShapeError);
  const nn::BatchNorm2d planes(3);
  CHECK_THROWS_WITH_AS(planes(Variable(Tensor::zeros({2, 3, 4}, f32, meta()))),
                       doctest::Contains("4 dimensions"), ShapeError);
  CHECK_THROWS_AS(nn::BatchNorm2d(0), ConfigError);
  const nn::BatchNorm1d one = layer_of({.num_features = 2});
  CHECK_THROWS_WITH_AS(one(Variable(waves({1, 2}))), doctest::Contains("more than 1 value per channel"),
                       ValueError);
  CHECK(text(nn::BatchNorm3d({.num_features = 2, .affine = false}).describe_options()) == "2, not affine");
}
