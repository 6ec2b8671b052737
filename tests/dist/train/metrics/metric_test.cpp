// The forms of inputs, closed-form values, and errors of metrics on one process.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "autograd/functions/layers/loss.h"
#include "data/batch.h"
#include "dist/train/metrics/accuracy.h"
#include "dist/train/metrics/confusion_matrix.h"
#include "dist/train/metrics/f1.h"
#include "dist/train/metrics/mean.h"
#include "dist/train/metrics/mean_absolute_error.h"
#include "dist/train/metrics/mean_squared_error.h"
#include "dist/train/metrics/metric_collection.h"
#include "dist/train/metrics/perplexity.h"
#include "dist/train/metrics/r2.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor ids(std::initializer_list<int64_t> values) {
  return Tensor::from(values);
}

double accuracy_of(const Variable& predictions, const Tensor& targets, const AccuracyOptions& options = {}) {
  Accuracy accuracy(options);
  accuracy.update(predictions, targets);
  return accuracy.compute().item();
}

/// A metric with a state of each reduction and dtype.
struct Span : Metric {
  Span() : Metric("extremes") {}
  Tensor value() const override { return smallest.value.clone(); }
  using Metric::add_state;

  MetricState& smallest = add_state("smallest", dist::Reduction::min);
  MetricState& largest = add_state("largest", dist::Reduction::max, f64, {2});
  MetricState& first = add_state("first", dist::Reduction::min, i64);
  MetricState& last = add_state("last", dist::Reduction::max, i64);
  MetricState& count = add_state("count", dist::Reduction::sum, i64);
};

}  // namespace

TEST_CASE("metrics: states begin with the value of no samples, and reset restores it") {
  Span metric;
  for (int pass = 0; pass < 2; ++pass) {
    CHECK(metric.smallest.value.item() == infinity);
    CHECK(metric.largest.value.data<double>()[1] == -infinity);
    CHECK(metric.first.value.item_i64() == std::numeric_limits<int64_t>::max());
    CHECK(metric.last.value.item_i64() == std::numeric_limits<int64_t>::lowest());
    CHECK(metric.count.value.item_i64() == 0);
    *metric.smallest.value.data<double>() = 3;
    metric.largest.value.data<double>()[1] = 3;
    *metric.first.value.data<int64_t>() = 3;
    *metric.last.value.data<int64_t>() = 3;
    *metric.count.value.data<int64_t>() = 3;
    metric.reset();
  }
  CHECK(metric.description() ==
        "extremes(), smallest () f64 min, largest (2,) f64 max, first () i64 min, last () i64 max, count () "
        "i64 sum");
}

TEST_CASE("metrics: a state of another dtype, reduction or with a used name is an error") {
  Span metric;
  CHECK_THROWS_AS(metric.add_state("x", dist::Reduction::sum, f32), DTypeError);
  CHECK_THROWS_AS(metric.add_state("x", dist::Reduction::avg), ValueError);
  CHECK_THROWS_AS(metric.add_state("count", dist::Reduction::sum), ValueError);
  CHECK_THROWS_AS(metric.add_state("", dist::Reduction::sum), ValueError);
  CHECK_THROWS_AS(metric.add_state("a\tb", dist::Reduction::sum), ValueError);
}

TEST_CASE("metrics: a computed value does not change with later updates") {
  ConfusionMatrix matrix;
  matrix.update(ids({0, 1}), ids({0, 1}));
  const Tensor before = matrix.compute();
  matrix.update(ids({0, 1}), ids({0, 1}));
  CHECK(before.data<double>()[0] == 1);
  CHECK(matrix.compute().data<double>()[0] == 2);
}

TEST_CASE("mean: of numbers, one-element tensors and elements with weights") {
  Mean mean;
  mean.update(2.0, 3);
  mean.update(Tensor::scalar(6.0f), 1);
  CHECK(mean.compute().item() == 3);
  mean.update(not_a_number, 0);  // the mean loss of a batch of padding
  mean.update(Tensor::scalar(not_a_number), 0);
  CHECK(mean.compute().item() == 3);
  mean.update(Tensor::from({1.0f, 5.0f}));  // weights 1
  CHECK(mean.compute().item() == 3);
  mean.update(Variable::leaf(Tensor::from({8.0, not_a_number, 100.0, not_a_number}, {2, 2})),
              Tensor::from({1.0, 0.0, 1.0, 0.0}, {2, 2}));
  CHECK(mean.compute().item() == 126.0 / 8);
  mean.update(not_a_number);
  CHECK(std::isnan(mean.compute().item()));
  mean.reset();
  mean.update(4);
  CHECK(mean.compute().item() == 4);
}

TEST_CASE("metrics: the weights of a padded batch leave its padding out") {
  data::Batch batch;
  batch.samples = {0, 1, 2};
  batch.items = {5, 6, -1};
  batch.x = Tensor::from({1.0f, 2.0f, 50.0f}, {3});
  batch.y = Tensor::from({3.0f, 2.0f, 0.0f}, {3});
  MeanSquaredError mse;
  mse.update(batch.x, batch.y, batch.weights());
  CHECK(mse.compute().item() == 2);
  Mean mean;
  mean.update(0.5, static_cast<double>(batch.unpadded_size()));
  mean.update(2.0, 1);
  CHECK(mean.compute().item() == 1);
}

TEST_CASE("accuracy: logits of every floating dtype, predicted ids, scores of class 1") {
  const Tensor logits = Tensor::from({0.0, 1.0, 2.0, 5.0, 1.0, 0.0, 0.0, 3.0, 1.0, 1.0, 0.0, 2.0}, {2, 2, 3});
  const Tensor targets = Tensor::from<int64_t>({2, 1, 1, 2}, {2, 2});
  for (const DType dtype : {f64, f32, bf16, f16}) {
    CHECK(accuracy_of(ops::cast(logits, dtype), targets) == 0.75);
    CHECK(accuracy_of(Variable::leaf(ops::cast(logits, dtype)), targets, {.top_k = 2}) == 1);
  }
  CHECK(accuracy_of(logits, ops::cast(targets, i32), {.top_k = 3}) == 1);
  CHECK(accuracy_of(logits, targets, {.top_k = 100}) == 1);
  CHECK(accuracy_of(logits.transpose(0, 1), targets.transpose(0, 1)) == 0.75);
  CHECK(accuracy_of(ids({1, 2, 3, 9}), ids({1, 2, 3, 4})) == 0.75);
  const Tensor positive = Tensor::from({0.1, 0.5, 0.6, 0.9});
  CHECK(accuracy_of(positive, ids({0, 0, 1, 0})) == 0.75);  // 0.5 is not above the threshold
  CHECK(accuracy_of(positive, ids({1, 0, 0, 0}), {.threshold = 0.95}) == 0.75);
  CHECK(accuracy_of(positive, Tensor::from({false, false, true, true})) == 1);
  CHECK(accuracy_of(Tensor::empty({0, 3}), Tensor::empty({0}, i64)) == 0);
}

TEST_CASE("accuracy: of equal scores the first class is ahead, and NaN is ahead of all") {
  const Tensor equal = Tensor::zeros({1, 3}, f32);
  CHECK(accuracy_of(equal, ids({0})) == 1);
  CHECK(accuracy_of(equal, ids({1})) == 0);
  CHECK(accuracy_of(equal, ids({1}), {.top_k = 2}) == 1);
  CHECK(accuracy_of(equal, ids({2}), {.top_k = 2}) == 0);
  const Tensor diverged = Tensor::from({9.0, not_a_number, infinity, not_a_number}, {1, 4});
  const std::vector<int64_t> order = {1, 3, 2, 0};
  for (int64_t k = 1; k <= 4; ++k)
    for (int64_t place = 0; place < 4; ++place)
      CHECK(accuracy_of(diverged, ids({order[static_cast<size_t>(place)]}), {.top_k = k}) == (place < k));
}

TEST_CASE("accuracy: ignored targets and rows of weight 0 do not count and are not checked") {
  const Tensor predictions = ids({1, 1, 1, 1});
  CHECK(accuracy_of(predictions, ids({1, -100, 0, -100})) == 0.5);
  CHECK(accuracy_of(predictions, ids({1, 7, 0, 7}), {.ignore_index = 7}) == 0.5);
  CHECK_THROWS_AS(accuracy_of(predictions, ids({1, -100, 0, 1}), {.ignore_index = std::nullopt}), IndexError);
  Accuracy accuracy;
  accuracy.update(predictions, ids({1, -5, 0, 1}), Tensor::from({1.0, 0.0, 0.5, 0.5}));
  CHECK(accuracy.compute().item() == 0.75);
  const Tensor tokens = Tensor::from<int64_t>({1, 1, 0, 0, 1, 1}, {3, 2});
  Accuracy by_row;  // a weight for each row of two
  by_row.update(tokens, Tensor::from<int64_t>({1, 1, 1, 1, 1, 0}, {3, 2}), Tensor::from({1.0f, 0.0f, 1.0f}));
  CHECK(by_row.compute().item() == 0.75);
}

TEST_CASE("f1: closed form of two classes, by class and together") {
  // Class 1: 2 hits, 1 false alarm, 1 miss; class 0: 1 hit.
  const Tensor predicted = ids({1, 1, 1, 0, 0}), targets = ids({1, 1, 0, 1, 0});
  const auto value = [&](auto&& metric) {
    metric.update(predicted, targets);
    return metric.compute().item();
  };
  CHECK(value(Precision({.average = Average::binary})) == doctest::Approx(2.0 / 3));
  CHECK(value(Recall({.average = Average::binary})) == doctest::Approx(2.0 / 3));
  CHECK(value(F1({.average = Average::binary})) == doctest::Approx(2.0 / 3));
  CHECK(value(F1({.average = Average::macro})) == doctest::Approx((2.0 / 3 + 0.5) / 2));
  CHECK(value(F1({.average = Average::micro})) == doctest::Approx(0.6));
  CHECK(value(F1({.average = Average::weighted})) == doctest::Approx((3 * 2.0 / 3 + 2 * 0.5) / 5));
}

TEST_CASE("perplexity: even logits have the vocabulary's size; mean losses add up by their tokens") {
  Perplexity even;
  even.update(Tensor::zeros({2, 3, 11}, f32), Tensor::zeros({2, 3}, i64));
  CHECK(even.compute().item() == doctest::Approx(11).epsilon(1e-6));  // a loss in f32
  const Tensor logits = Tensor::from({2.0, 0.0, 1.0, 0.0, 3.0, 1.0, 1.0, 1.0, 1.0}, {3, 3});
  const Tensor targets = ids({0, 1, -100});
  Perplexity from_logits, from_means;
  from_logits.update(Variable::leaf(logits), targets);
  from_means.update_mean(cross_entropy(Variable(logits.narrow(0, 0, 1)), targets.narrow(0, 0, 1)), 1);
  from_means.update_mean(cross_entropy(Variable(logits.narrow(0, 1, 2)), targets.narrow(0, 1, 2)), 1);
  from_means.update_mean(Tensor::scalar(not_a_number), 0);
  CHECK(from_logits.compute().item() == doctest::Approx(from_means.compute().item()).epsilon(1e-12));
  const double nll =
      -(2 - std::log(std::exp(2) + 1 + std::exp(1)) + 3 - std::log(1 + std::exp(3) + std::exp(1)));
  CHECK(from_logits.compute().item() == doctest::Approx(std::exp(nll / 2)).epsilon(1e-12));
  Perplexity low;
  low.update(ops::cast(logits, bf16), targets);
  CHECK(low.compute().item() == doctest::Approx(std::exp(nll / 2)).epsilon(1e-6));  // these logits are exact
}

TEST_CASE("errors of regression: of integers, of one element, of large values") {
  MeanAbsoluteError mae;
  mae.update(ids({1, 2}), ids({3, -2}));
  CHECK(mae.compute().item() == 3);
  MeanSquaredError rmse({.root = true});
  rmse.update(Tensor::scalar(1.0f), Tensor::scalar(4.0f));
  CHECK(rmse.compute().item() == 3);
  MeanSquaredError large;  // the squares are not numbers of f32
  large.update(Tensor::from({1e30f}), Tensor::from({0.0f}));
  CHECK(large.compute().item() == doctest::Approx(1e60));
}

TEST_CASE("r2: constant targets, one sample, several batches") {
  const auto r2 = [](const Tensor& predictions, const Tensor& targets) {
    R2 metric;
    metric.update(predictions, targets);
    return metric.compute().item();
  };
  const Tensor tenths = Tensor::from({0.1, 0.1, 0.1});  // the rounded sums do not cancel
  CHECK(r2(tenths, tenths) == 1);
  CHECK(r2(Tensor::from({0.1, 0.2, 0.1}), tenths) == 0);
  CHECK(std::isnan(r2(Tensor::from({1.0}), Tensor::from({1.0}))));
  CHECK(r2(Tensor::from({2.0, 2.0, 2.0}), Tensor::from({1.0, 2.0, 3.0})) == 0);
  CHECK(r2(Tensor::from({1.0, 2.0, 4.0}), Tensor::from({1.0, 2.0, 3.0})) == 0.5);
  R2 parts;
  parts.update(Tensor::from({1.0}), Tensor::from({1.0}));
  parts.update(Tensor::from({2.0, 4.0}), Tensor::from({2.0, 3.0}));
  CHECK(parts.compute().item() == 0.5);
  R2 constant({.outputs = 2, .average = OutputAverage::variance_weighted});
  constant.update(Tensor::from({1.0, 2.0, 1.0, 3.0}, {2, 2}), Tensor::from({1.0, 2.0, 1.0, 2.0}, {2, 2}));
  CHECK(constant.compute().item() == 0.5);  // there is no variance to weight by
}

TEST_CASE("metrics: an input that does not fit is an error with the metric's name, and changes nothing") {
  MetricCollection metrics;
  auto& accuracy = metrics.add<Accuracy>("valid/accuracy");
  auto& matrix = metrics.add<ConfusionMatrix>("matrix", {.classes = 3});
  auto& f1 = metrics.add<F1>("f1", {.classes = 3});
  auto& perplexity = metrics.add<Perplexity>("perplexity");
  auto& mse = metrics.add<MeanSquaredError>("mse");
  auto& mean = metrics.add<Mean>("mean");
  auto& r2 = metrics.add<R2>("r2", {.outputs = 2});
  const Tensor logits = Tensor::zeros({2, 3}, f32), targets = ids({0, 1});
  CHECK(message_of<IndexError>([&] {
          accuracy.update(logits, ids({0, 3}));
        }) == "metric 'valid/accuracy': expected a target in [0, 3), got 3 at position 1");
  CHECK(message_of<IndexError>([&] {
          accuracy.update(ids({0, 1}), ids({0, -1}));
        }) == "metric 'valid/accuracy': expected a target of at least 0, got -1 at position 1");
  CHECK(message_of<IndexError>([&] {
          matrix.update(ids({0, 3}), targets);
        }) == "metric 'matrix': expected a predicted class in [0, 3), got 3 at position 1");
  CHECK(message_of<IndexError>([&] {
          f1.update(logits, ids({0, -1}));
        }) == "metric 'f1': expected a target in [0, 3), got -1 at position 1");
  CHECK(message_of<IndexError>([&] {
          perplexity.update(logits, ids({3, 0}));
        }) == "metric 'perplexity': expected a target in [0, 3), got 3 at position 0");
  CHECK(
      message_of<ShapeError>([&] {
        accuracy.update(logits, ids({0, 1, 2}));
      }) ==
      "metric 'valid/accuracy': expected scores of the targets' shape (3,) and then at least 2 classes, got "
      "(2, 3) f32 on cpu");
  CHECK(contains(message_of<ShapeError>([&] {
                   accuracy.update(Tensor::zeros({2, 1}, f32), targets);
                 }),
                 "at least 2 classes, got (2, 1) f32"));
  CHECK(contains(message_of<ShapeError>([&] {
                   accuracy.update(ids({0, 1, 2}), targets);
                 }),
                 "of one shape, got"));
  CHECK(contains(message_of<ShapeError>([&] {
                   matrix.update(Tensor::zeros({2, 4}, f32), targets);
                 }),
                 "expected scores of 3 classes, got (2, 4) f32"));
  CHECK(contains(message_of<ShapeError>([&] {
                   mse.update(Tensor::zeros({2, 1}, f32), Tensor::zeros({2}, f32));
                 }),
                 "expected predictions and targets of one shape, got predictions (2, 1)"));
  CHECK(contains(message_of<ShapeError>([&] {
                   r2.update(Tensor::zeros({2, 3}), Tensor::zeros({2, 3}));
                 }),
                 "expected rows of 2 outputs, got (2, 3)"));
  CHECK(contains(message_of<ShapeError>([&] { accuracy.update(logits, targets, Tensor::zeros({3}, f32)); }),
                 "expected weights of the samples' shape (2,) or of its leading extents, got (3,) f32"));
  CHECK(contains(message_of<ShapeError>([&] { mean.update(Tensor::zeros({2}, f32), 2); }),
                 "expected one value"));
  CHECK(contains(message_of<DTypeError>([&] { accuracy.update(logits, Tensor::zeros({2}, f32)); }),
                 "expected targets of an integer dtype or bool, got (2,) f32"));
  CHECK(contains(message_of<DTypeError>([&] {
                   perplexity.update(Tensor::zeros({2, 3}, i64), targets);
                 }),
                 "expected floating scores, got (2, 3) i64"));
  CHECK(contains(message_of<ValueError>([&] {
                   accuracy.update(logits, targets, Tensor::from({1.0, -1.0}));
                 }),
                 "expected weights that are finite and at least 0, got -1 at position 1"));
  CHECK(contains(message_of<ValueError>([&] { mean.update(1.0, not_a_number); }),
                 "expected a weight that is finite"));
  CHECK(contains(message_of<ValueError>([&] { perplexity.update_mean(Tensor::scalar(1.0), -1); }),
                 "number of tokens"));
  CHECK_THROWS_AS(accuracy.update(logits.to(meta()), targets), DeviceError);
  CHECK_THROWS_AS(accuracy.update(Tensor(), targets), ValueError);
  CHECK_THROWS_AS(accuracy.update(logits, Tensor()), ValueError);
  for (const char* name : {"valid/accuracy", "matrix", "f1", "perplexity", "mse", "mean", "r2"})
    for (const MetricState& state : metrics.at(name).states()) {
      CAPTURE(name);
      CAPTURE(state.name);
      if (state.reduction == dist::Reduction::sum) CHECK(state.value.sum().item() == 0);
    }
}

TEST_CASE("metrics: options out of range are errors") {
  CHECK_THROWS_AS(Accuracy({.top_k = 0}), ValueError);
  CHECK_THROWS_AS(Accuracy({.threshold = not_a_number}), ValueError);
  CHECK_THROWS_AS(F1({.classes = 1}), ValueError);
  CHECK_THROWS_AS(F1({.classes = 3, .average = Average::binary}), ValueError);
  CHECK_THROWS_AS(Recall({.threshold = not_a_number}), ValueError);
  CHECK_THROWS_AS(ConfusionMatrix({.classes = -1}), ValueError);
  CHECK_THROWS_AS(R2({.outputs = 0}), ValueError);
}

TEST_CASE("metric collection: names") {
  MetricCollection metrics;
  CHECK(contains(message_of<ValueError>([&] { metrics.at("loss"); }), "it has none"));
  metrics.add<Mean>("loss").update(2.0);
  Metric& own = metrics.add("own", std::make_unique<Span>());
  CHECK(own.name() == "own");
  CHECK(metrics.size() == 2);
  CHECK(&metrics.at("own") == &own);
  CHECK_THROWS_AS(metrics.add<Mean>("loss"), ValueError);
  CHECK_THROWS_AS(metrics.add<Mean>(""), ValueError);
  CHECK_THROWS_AS(metrics.add<Mean>("a\nb"), ValueError);
  CHECK_THROWS_AS(metrics.add("null", std::unique_ptr<Mean>()), ValueError);
  CHECK(message_of<ValueError>([&] { metrics.at("Loss"); }) ==
        "MetricCollection: expected the name of a metric ('loss', 'own'), got 'Loss'");
  const std::vector<NamedTensor> values = metrics.compute();
  REQUIRE(values.size() == 2);
  CHECK(values[0].name == "loss");
  CHECK(values[0].tensor.item() == 2);
  metrics.reset();
  CHECK(std::isnan(metrics.at("loss").compute().item()));
}
