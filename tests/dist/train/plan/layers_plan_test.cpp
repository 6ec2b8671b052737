// The plan of a step beside two steps that are computed, for networks of the other kinds of layers.

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/view.h"
#include "dist/train/plan/step_plan.h"
#include "dist/train/trainer/trainer.h"
#include "nn/layers/attention.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/containers.h"
#include "nn/layers/convolution.h"
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/embedding_bag.h"
#include "nn/layers/images/channel_norms.h"
#include "nn/layers/images/upsampling.h"
#include "nn/layers/linear.h"
#include "nn/layers/pooling.h"
#include "nn/layers/recurrent/recurrent.h"
#include "nn/layers/transformer/encoder.h"
#include "nn/loss.h"
#include "optim/rules/adam.h"

using namespace tessera;
using namespace tessera::training;

namespace {

constexpr int64_t classes = 8, samples = 64;

/// Rows of `shape`, or ids of such a shape below `vocabulary`, and classes.
struct Rows : DataModule {
  Rows(Shape shape, int64_t vocabulary) {
    Tensor x = Tensor::zeros(shape, vocabulary > 0 ? i64 : f32);
    const Tensor y = Tensor::zeros({shape[0]}, i64);
    for (int64_t i = 0; i < x.numel(); ++i)
      if (vocabulary > 0)
        x.data<int64_t>()[i] = i * 7 % vocabulary;
      else
        x.data<float>()[i] = static_cast<float>(i * i % 17) / 8 - 1;
    for (int64_t i = 0; i < y.numel(); ++i) y.data<int64_t>()[i] = i % classes;
    rows = std::make_shared<data::TensorDataset>(x, y);
  }
  std::shared_ptr<const data::Dataset> rows;
  std::optional<LoaderSpec> train_dataloader() override { return LoaderSpec{rows, {.batch_size = samples}}; }
};

/// A classifier by the network `Self::forward`.
template <class Self>
struct Classifier : TaskOf<Self> {
  Variable training_step(const data::Batch& batch, int64_t) override {
    return nn::cross_entropy(static_cast<Self&>(*this).run(batch.x), batch.y);
  }
  OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::AdamW>(parameters, 1e-2)};
  }
};

struct Images : Classifier<Images> {
  nn::Conv2d& stem =
      add<nn::Conv2d>("stem", {.in_channels = 3, .out_channels = 16, .kernel_size = 3, .padding = 1});
  nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", nn::BatchNormOptions{.num_features = 16});
  nn::MaxPool2d& pool = add("pool", nn::MaxPool2d(2));
  nn::Conv2d& deep = add<nn::Conv2d>(
      "deep", {.in_channels = 16, .out_channels = 32, .kernel_size = 3, .stride = 2, .groups = 2});
  nn::GroupNorm& groups = add<nn::GroupNorm>("groups", {.num_groups = 4, .num_channels = 32});
  nn::ConvTranspose2d& up =
      add<nn::ConvTranspose2d>("up", {.in_channels = 32, .out_channels = 8, .kernel_size = 2, .stride = 2});
  nn::AdaptiveAvgPool2d& mean = add("mean", nn::AdaptiveAvgPool2d(1));
  nn::Linear& head = add<nn::Linear>("head", {.in = 8, .out = classes});
  Variable forward(const Tensor& x) {
    const Variable first = pool(norm.norm_relu(stem(Variable(x))));
    const Variable second = gelu(groups(deep(first)));
    return head(flatten(mean(up(second)), 1));
  }
  Variable run(const Tensor& x) { return (*this)(x); }
};

/// Its stem is frozen: nothing of it is kept for backward.
struct FrozenImages : Images {
  FrozenImages() {
    stem.set_requires_grad(false);
    norm.set_requires_grad(false);
  }
};

struct Words : Classifier<Words> {
  nn::Embedding& words = add<nn::Embedding>("words", {.count = 50, .width = 24});
  nn::LSTM& lstm = add<nn::LSTM>(
      "lstm",
      {.input_size = 24, .hidden_size = 32, .num_layers = 2, .batch_first = true, .bidirectional = true});
  nn::GRU& gru = add<nn::GRU>("gru", {.input_size = 64, .hidden_size = 16, .batch_first = true});
  nn::Linear& head = add<nn::Linear>("head", {.in = 16, .out = classes});
  Variable forward(const Tensor& ids) {
    return head(select(gru(lstm(words(ids)).output).output, 1, ids.size(1) - 1));
  }
  Variable run(const Tensor& ids) { return (*this)(ids); }
};

struct Bags : Classifier<Bags> {
  nn::EmbeddingBag& words = add<nn::EmbeddingBag>("words", {.count = 50, .width = 24});
  nn::Linear& head = add<nn::Linear>("head", {.in = 24, .out = classes});
  Variable forward(const Tensor& ids) { return head(words(ids)); }
  Variable run(const Tensor& ids) { return (*this)(ids); }
};

struct Encoder : Classifier<Encoder> {
  nn::Embedding& words = add<nn::Embedding>("words", {.count = 50, .width = 32});
  nn::TransformerEncoderLayer& layer = add<nn::TransformerEncoderLayer>(
      "layer", {.d_model = 32, .nhead = 4, .dim_feedforward = 64, .dropout = 0.1, .batch_first = true});
  nn::Linear& head = add<nn::Linear>("head", {.in = 32, .out = classes});
  Variable forward(const Tensor& ids) { return head(select(layer(words(ids)), 1, 0)); }
  Variable run(const Tensor& ids) { return (*this)(ids); }
};

/// Holds the plan of a step of `Network` against the peak of two that are computed.
template <class Network>
void check(const Shape& shape, int64_t vocabulary, PrecisionMode precision = PrecisionMode::f32) {
  CAPTURE(static_cast<int>(precision));
  const TrainerOptions options{.max_steps = 2, .precision = precision, .gradient_clip = 1.0};
  Rows data(shape, vocabulary);
  const StepPlan plan = Trainer(options).plan([] { return std::make_unique<Network>(); }, data);
  const auto account = make_intrusive<MemoryAccount>();
  {
    const AccountScope scope(account);
    Network network;
    Trainer(options).fit(network, data);
  }
  const auto planned = static_cast<double>(plan.peak.total),
             real = static_cast<double>(account->total().peak);
  CHECK(planned == doctest::Approx(real).epsilon(0.05));
}

}  // namespace

TEST_CASE("Trainer::plan: networks of images, words and attention are within 5 % of their peak") {
  SUBCASE("convolutions, norms and pools") {
    check<Images>({128, 3, 20, 20}, 0);
    check<Images>({128, 3, 20, 20}, 0, PrecisionMode::bf16);
  }
  SUBCASE("a frozen backbone") {
    check<FrozenImages>({128, 3, 20, 20}, 0);
    check<FrozenImages>({128, 3, 20, 20}, 0, PrecisionMode::bf16);
  }
  SUBCASE("recurrent layers") {
    check<Words>({128, 12}, 50);
    check<Words>({128, 12}, 50, PrecisionMode::bf16);
  }
  SUBCASE("bags of words") {
    check<Bags>({128, 12}, 50);
    check<Bags>({128, 12}, 50, PrecisionMode::bf16);
  }
  SUBCASE("an encoder") {
    check<Encoder>({128, 12}, 50);
    check<Encoder>({128, 12}, 50, PrecisionMode::bf16);
  }
}
