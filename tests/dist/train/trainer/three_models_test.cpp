// One driver trains any model on any dataset: a language model, a classifier of images, and the network with
// which documents measure distributed training; its sizes are checked too.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/view.h"
#include "dist/train/config/training_fields.h"
#include "dist/train/trainer/trainer.h"
#include "models/gpt.h"
#include "nn/functional.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/operators.h"
#include "tensor/ops/creation/generator.h"

using namespace tessera;
using namespace tessera::training;

namespace {

/// Windows of a text at random offsets: the index is not read.
struct RandomWindows : data::Dataset {
  int64_t block = 12;
  int64_t size() const override { return 512; }
  data::Example get(int64_t) const override {
    const int64_t offset = randint(0, size() - block, {1}).data<int64_t>()[0];
    Tensor x = Tensor::empty({block}, i64), y = Tensor::empty({block}, i64);
    for (int64_t i = 0; i < block; ++i) {
      x.data<int64_t>()[i] = token(offset + i);
      y.data<int64_t>()[i] = token(offset + i + 1);
    }
    return {x, y};
  }
  static int64_t token(int64_t i) { return i * i % 7; }
};

/// Images in [-1, 1], brighter in the part that their class names.
struct Images : data::Dataset {
  int64_t size() const override { return 256; }
  data::Example get(int64_t index) const override {
    const Tensor image = rand({3, 4, 4}) - 0.5;
    for (int64_t i = 0; i < 12; ++i) image.data<float>()[12 * (index % 4) + i] += 0.5f;
    return {image, Tensor::scalar(index % 4)};
  }
};
struct ImageClassifier : nn::Layer<ImageClassifier> {
  nn::Linear& hidden = add<nn::Linear>("hidden", {.in = 48, .out = 32});
  nn::Linear& out = add<nn::Linear>("out", {.in = 32, .out = 4});
  Variable forward(const Variable& x) { return out(nn::relu(hidden(flatten(x, 1)))); }
};

/// x uniform in [-10, 10), and the class int(x . x % classes).
struct BenchmarkData : data::Dataset {
  int64_t features, classes;
  BenchmarkData(int64_t in, int64_t out) : features(in), classes(out) {}
  int64_t size() const override { return 1 << 16; }
  static int64_t label(const Tensor& x, int64_t classes) {
    return static_cast<int64_t>(std::fmod(static_cast<double>((x * x).sum().item()), classes));
  }
  data::Example get(int64_t) const override {
    const Tensor x = rand({features}) * 20 - 10;
    return {x, Tensor::scalar(label(x, classes))};
  }
};
/// L linear layers, each with a ReLU after it, the last one too.
struct BenchmarkModel : nn::Layer<BenchmarkModel> {
  nn::Sequential& layers = add<nn::Sequential>("layers");
  BenchmarkModel(int64_t width, int64_t count, int64_t in, int64_t out) {
    for (int64_t i = 0; i < count; ++i) {
      layers.push<nn::Linear>({.in = i == 0 ? in : width, .out = i + 1 == count ? out : width});
      layers.push<nn::ReLU>();
    }
  }
  Variable forward(const Variable& x) { return layers(x); }
};

/// A model with scores of classes as results.
template <class Model>
struct Classification : Task {
  Model model;
  std::vector<double> losses;
  template <class... Args>
  explicit Classification(Args... args) : model(args...) {}
  nn::Module& module() override { return model; }
  Variable training_step(const data::Batch& batch, int64_t) override {
    Variable loss;
    if constexpr (std::is_invocable_v<Model&, const Tensor&>)
      loss = nn::cross_entropy(model(batch.x), batch.y);
    else
      loss = nn::cross_entropy(model(Variable(batch.x)), batch.y);
    losses.push_back(loss.value().item());
    return loss;
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::Adam>(parameters, 3e-3)};
  }
};

/// The driver: whether the losses fall.
template <class Model, class... Args>
void check_trains(std::shared_ptr<const data::Dataset> dataset, Args... args) {
  Classification<Model> task(args...);
  Loaders data({std::move(dataset), {.batch_size = 16, .shuffle = true}});
  Trainer({.max_steps = 60}).fit(task, data);
  const auto mean = [&](size_t first) {
    double sum = 0;
    for (size_t i = first; i < first + 15; ++i) sum += task.losses[i];
    return sum / 15;
  };
  REQUIRE(task.losses.size() == 60);
  CHECK(mean(45) < mean(0));
  CHECK(mean(45) < task.losses.front());
}

}  // namespace

TEST_CASE("one driver trains a language model, a classifier of images and the benchmark's network") {
  check_trains<models::Gpt>(
      std::make_shared<RandomWindows>(),
      models::GptOptions{.vocabulary = 7, .block_size = 12, .layers = 1, .heads = 2, .width = 16});
  check_trains<ImageClassifier>(std::make_shared<Images>());
  check_trains<BenchmarkModel>(std::make_shared<BenchmarkData>(32, 8), 32, 3, 32, 8);
}

TEST_CASE("the benchmark's network: L linear layers and L ReLUs, of the printed sizes") {
  const auto parameters = [](int64_t width, int64_t count) {
    return BenchmarkModel(width, count, width, width).parameters().numel();
  };
  CHECK(parameters(8192, 3) == 201'351'168);    // wide
  CHECK(parameters(256, 2048) == 134'742'016);  // deep
  BenchmarkModel model(16, 5, 6, 4);
  CHECK(model.layers.size() == 10);
  nn::materialize(model, cpu(), 1);
  const Tensor y = model(Variable(rand({32, 6}) * 20 - 10)).value();
  CHECK(y.shape() == Shape{32, 4});
  CHECK(y.min().item() >= 0);
  CHECK(y.max().item() > 0);
  // A step of one sample through 2048 layers.
  BenchmarkModel deep(32, 2048, 32, 32);
  nn::materialize(deep, cpu(), 1);
  const Variable loss = nn::cross_entropy(deep(Variable(rand({1, 32}))), Tensor::from<int64_t>({3}));
  loss.backward();
  CHECK(std::isfinite(loss.value().item()));
  for (const NamedParameter& parameter : deep.parameters())
    REQUIRE(std::isfinite(parameter.variable.grad().value().abs().max().item()));
}

TEST_CASE("the benchmark's data: 65536 samples, labels recomputed from x; 4 steps an epoch on 8 ranks") {
  const auto dataset = std::make_shared<BenchmarkData>(24, 10);
  CHECK(dataset->size() == 65536);
  data::DataLoader loader(dataset, {.batch_size = 256, .seed = 5});
  int64_t batches = 0;
  for (auto& [x, y] : loader) {
    CHECK(x.min().item() >= -10);
    CHECK(x.max().item() < 10);
    for (int64_t i = 0; i < 256; ++i) {
      const int64_t label = y.select(0, i).template item<int64_t>();
      REQUIRE(label == BenchmarkData::label(x.select(0, i), 10));
      REQUIRE((label >= 0 && label < 10));
    }
    if (++batches == 2) break;
  }
  const BatchSizes sizes = resolve_batch_sizes({16384, 2048, 0}, 8);
  CHECK(sizes.accumulation_steps == 1);
  CHECK(dataset->size() / sizes.train_batch_size == 4);
}
