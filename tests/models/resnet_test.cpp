// ResNet: its size and names, and PyTorch's logits, gradients, running statistics and training steps from the
// same weights.

#include "models/resnet.h"

#include <doctest/doctest.h>

#include "autograd/functions/layers/loss.h"
#include "autograd/grad_mode.h"
#include "nn/checkpoint_modules.h"
#include "nn/materialize.h"
#include "nn/save.h"
#include "optim/rules/sgd.h"
#include "tensor/channels_last.h"
#include "tensor/io/safetensors.h"
#include "tests/support/error_text.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using models::ResNetStem;

namespace {

Tensor golden(const std::string& name) {
  static const io::SafetensorsFile file(TESSERA_TEST_DATA_DIR "/models/goldens/resnet.safetensors");
  return file.read(name);
}

int64_t count_of(const nn::Module& model) {
  int64_t count = 0;
  for (const NamedParameter& p : model.parameters()) count += p.variable.numel();
  return count;
}

models::ResNetOptions tiny(ResNetStem stem) {
  return {
      .classes = 3, .width = 2, .blocks = {stem == ResNetStem::small_images ? 2 : 1, 1, 1, 1}, .stem = stem};
}

/// The tiny model with the recorded weights, in f64.
struct Recorded {
  std::string prefix;
  models::ResNet model;

  explicit Recorded(ResNetStem stem)
      : prefix(stem == ResNetStem::small_images ? "small/" : "large/"), model(tiny(stem)) {
    model.to(f64);
    nn::materialize(model, cpu(), 0);
    for (const NamedParameter& p : model.parameters())
      p.variable.value().copy_from(golden(prefix + "param/" + p.name));
  }
  Variable images(int64_t step, bool channels_last = false) const {
    return in_layout(channels_last, golden(prefix + "images").select(0, step).contiguous());
  }
  Tensor labels(int64_t step) const { return golden(prefix + "labels").select(0, step).contiguous(); }
};

}  // namespace

TEST_CASE("resnet: parameters, by count and formula, and torchvision's names") {
  for (const auto& [stem, expected] :
       {std::pair{ResNetStem::small_images, 11'173'962}, {ResNetStem::torchvision, 11'181'642}}) {
    const models::ResNet model(models::resnet18(10, stem));
    CHECK(count_of(model) == expected);
    CHECK(models::parameter_count(models::resnet18(10, stem)) == expected);
  }
  CHECK(count_of(models::ResNet(models::resnet18(1000, ResNetStem::torchvision))) == 11'689'512);
  CHECK(count_of(models::ResNet(models::resnet34(1000, ResNetStem::torchvision))) == 21'797'672);
  CHECK(models::parameter_count(models::resnet34(1000, ResNetStem::torchvision)) == 21'797'672);
  const models::ResNet model(models::resnet18());
  CHECK(model.get_parameter("conv1.weight").shape() == Shape{64, 3, 3, 3});
  CHECK(model.get_parameter("layer1.0.conv1.weight").shape() == Shape{64, 64, 3, 3});
  CHECK(model.get_parameter("layer2.0.downsample.0.weight").shape() == Shape{128, 64, 1, 1});
  CHECK(model.get_parameter("layer4.1.bn2.bias").shape() == Shape{512});
  CHECK(model.get_buffer("layer2.0.downsample.1.running_var").shape() == Shape{128});
  CHECK(model.get_parameter("fc.weight").shape() == Shape{10, 512});
}

TEST_CASE("resnet: logits, gradients, running statistics and steps of SGD are PyTorch's") {
  for (const ResNetStem stem : {ResNetStem::small_images, ResNetStem::torchvision})
    for (const bool channels_last : {false, true}) {
      Recorded r(stem);
      CAPTURE(r.prefix);
      CAPTURE(channels_last);
      const Variable logits = r.model(r.images(0, channels_last));
      CHECK(largest_difference(logits.value(), golden(r.prefix + "logits")) < 1e-12);
      cross_entropy(logits, r.labels(0)).backward();
      for (const NamedParameter& p : r.model.parameters()) {
        CAPTURE(p.name);
        CHECK(largest_difference(p.variable.grad().value(), golden(r.prefix + "grad/" + p.name)) < 1e-11);
      }
      // From the beginning again: the call above changed the running statistics.
      Recorded t(stem);
      optim::SGD sgd(t.model.parameters(), {.lr = 0.02, .momentum = 0.9});
      const Tensor losses = golden(r.prefix + "losses");
      for (int64_t step = 0; step < losses.numel(); ++step) {
        CAPTURE(step);
        sgd.zero_grad();
        const Variable loss = cross_entropy(t.model(t.images(step, channels_last)), t.labels(step));
        CHECK(loss.item() == doctest::Approx(losses.select(0, step).item()).epsilon(1e-9));
        loss.backward();
        sgd.step();
      }
      for (const NamedTensor& entry : t.model.state_dict()) {
        CAPTURE(entry.name);
        const bool is_statistic = entry.name.find("running") != std::string::npos;
        if (!is_statistic && (stem != ResNetStem::small_images || entry.tensor.dtype() != f64)) continue;
        CHECK(largest_difference(entry.tensor, golden(t.prefix + "final/" + entry.name)) < 1e-9);
      }
      t.model.eval();
      const NoGrad no_grad;
      CHECK(largest_difference(t.model(t.images(0)).value(), golden(t.prefix + "evaluated")) < 1e-9);
    }
}

TEST_CASE("resnet: run as a list of layers it is the same, and checkpointed blocks give the same gradients") {
  Recorded r(ResNetStem::small_images);
  const std::vector<nn::LayerSpec> layers = r.model.to_layers();
  CHECK(layers.size() == 7);
  CHECK(layers[1].name == "layer1.0");
  nn::require_all_layers(r.model, r.model.to_layered_model());
  const nn::LayerValues by_layers = nn::run_layers(layers, {r.images(0)});
  CHECK(same_bits(by_layers.at(0).value(), r.model(r.images(0)).value()));
  const auto gradients = [&] {
    r.model.zero_grad();
    cross_entropy(r.model(r.images(0)), r.labels(0)).backward();
    std::vector<Tensor> all;
    for (const NamedParameter& p : r.model.parameters()) all.push_back(p.variable.grad().value());
    return all;
  };
  const std::vector<Tensor> plain = gradients();
  const Tensor mean = r.model.get_buffer("layer1.0.bn1.running_mean").value().clone();
  CHECK(nn::checkpoint_every<models::BasicBlock>(r.model).size() == 5);
  const std::vector<Tensor> again = gradients();
  for (size_t i = 0; i < plain.size(); ++i) CHECK(same_bits(plain[i], again[i]));
  // The rerun has not moved the running statistics a second time: 3 calls in training before, 4 now.
  CHECK(r.model.get_buffer("layer1.0.bn1.num_batches_tracked").value().item_i64() == 4);
  CHECK(!same_bits(mean, r.model.get_buffer("layer1.0.bn1.running_mean").value()));
}

TEST_CASE("resnet: with zero_init_residual a block begins as its shortcut") {
  models::ResNetOptions options = tiny(ResNetStem::small_images);
  options.zero_init_residual = true;
  models::ResNet model(options);
  nn::materialize(model, cpu(), 1);
  CHECK(model.get_parameter("layer1.0.bn2.weight").value().abs().max().item() == 0);
  CHECK(model.get_parameter("layer1.0.bn1.weight").value().abs().min().item() == 1);
  const models::BasicBlock& block = *(*model.layers[0])[0].as<models::BasicBlock>();
  const Tensor x = random_tensor({2, 2, 5, 5}, f32, 4).abs();
  CHECK(same_bits(block(x).value().contiguous(), x));
}

TEST_CASE("resnet: what does not fit is refused") {
  models::ResNet model(tiny(ResNetStem::small_images));
  nn::materialize(model, cpu(), 1);
  CHECK(contains(message_of<ShapeError>([&] {
                   model(Tensor::zeros({1, 4, 8, 8}));
                 }),
                 "ResNet: expected images (N, 3, H, W)"));
  CHECK_THROWS_AS(model(Tensor::zeros({3, 8, 8})), ShapeError);
  models::ResNetOptions bad = tiny(ResNetStem::small_images);
  bad.width = 0;
  CHECK(contains(message_of<ConfigError>([&] { models::ResNet{bad}; }),
                 "ResNet: expected width to be at least 1, got 0"));
  bad = tiny(ResNetStem::small_images);
  bad.blocks[2] = 0;
  CHECK_THROWS_AS(models::ResNet{bad}, ConfigError);
  CHECK_THROWS_AS(models::BasicBlock(models::BasicBlockOptions{.in_channels = 0}), ConfigError);
}
