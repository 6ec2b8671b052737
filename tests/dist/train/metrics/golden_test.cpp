// Every metric against scikit-learn and torchmetrics (make_goldens.py), on one process and on ranks with
// unequal shares, in batches of which the last one is padded.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "dist/train/metrics/accuracy.h"
#include "dist/train/metrics/confusion_matrix.h"
#include "dist/train/metrics/f1.h"
#include "dist/train/metrics/mean.h"
#include "dist/train/metrics/mean_absolute_error.h"
#include "dist/train/metrics/mean_squared_error.h"
#include "dist/train/metrics/metric_collection.h"
#include "dist/train/metrics/perplexity.h"
#include "dist/train/metrics/r2.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/cast.h"
#include "tests/dist/fsdp/rank_threads.h"

using namespace tessera;
using namespace tessera::training;

namespace {

using Goldens = std::map<std::string, Tensor>;

const Goldens& goldens() {
  static const Goldens all = [] {
    Goldens result;
    const auto path =
        std::filesystem::path(TESSERA_TEST_DATA_DIR) / "dist" / "train" / "metrics" / "goldens.txt";
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream head(line.substr(0, line.find(':'))), tail(line.substr(line.find(':') + 1));
      std::string name;
      head >> name;
      Shape shape;
      for (int64_t extent; head >> extent;) shape.push_back(extent);
      std::vector<double> values;
      for (std::string value; tail >> value;) values.push_back(std::stod(value));  // stod reads "nan"
      result[name] = Tensor::from(values, shape);
    }
    return result;
  }();
  return all;
}

constexpr int64_t all_rows = 40;
constexpr int64_t batch_rows = 7;

/// A batch: rows first .. last - 1 of the inputs, then padding.
struct Rows {
  int64_t first, last;

  /// These rows of an input; padding rows are filled with `padding`.
  Tensor of(const char* name, double padding) const {
    const Tensor& input = goldens().at(name);
    Shape shape = input.shape();
    shape[0] = batch_rows;
    const Tensor batch = ops::full(shape, padding, f64);
    batch.slice(0, 0, last - first).copy_from(input.slice(0, first, last));
    return batch;
  }
  Tensor values(const char* name) const { return of(name, std::numeric_limits<double>::quiet_NaN()); }
  Tensor ids(const char* name) const { return ops::cast(of(name, 99), i64); }  // 99: an error if it is read
  Tensor weights() const { return of("weights", 0); }
  /// 1 for each row, 0 for padding.
  Tensor ones() const {
    const Tensor batch = Tensor::zeros({batch_rows}, f32);
    for (int64_t i = 0; i < last - first; ++i) batch.data<float>()[i] = 1;
    return batch;
  }
};

struct GoldenMetric {
  std::string name;
  std::function<std::unique_ptr<Metric>()> make;
  std::function<void(Metric&, const Rows&)> update;
};

template <class M, class Update, class... Options>
GoldenMetric golden(std::string name, Update update, Options... options) {
  return {std::move(name), [=] { return std::make_unique<M>(options...); },
          [=](Metric& metric, const Rows& rows) { update(static_cast<M&>(metric), rows); }};
}

template <class M>
void add_class_metric(std::vector<GoldenMetric>& all, const std::string& name) {
  const auto weighted = [](M& m, const Rows& r) {
    m.update(r.values("logits"), r.ids("targets"), r.weights());
  };
  const auto ignored = [](M& m, const Rows& r) { m.update(r.values("logits"), r.ids("ignored"), r.ones()); };
  const auto binary = [](M& m, const Rows& r) {
    m.update(r.values("probabilities"), r.ids("labels"), r.weights());
  };
  for (const Average average : {Average::macro, Average::micro, Average::weighted, Average::none}) {
    const ClassMetricOptions options = {.classes = 6, .average = average};
    all.push_back(golden<M>(name + "_" + name_of(average), weighted, options));
    all.push_back(golden<M>("ignored_" + name + "_" + name_of(average), ignored, options));
  }
  all.push_back(golden<M>(name + "_binary", binary, ClassMetricOptions{.average = Average::binary}));
}

std::vector<GoldenMetric> golden_metrics() {
  std::vector<GoldenMetric> all;
  const auto weighted = [](Accuracy& m, const Rows& r) {
    m.update(r.values("logits"), r.ids("targets"), r.weights());
  };
  const auto ignored = [](Accuracy& m, const Rows& r) {
    m.update(r.values("logits"), r.ids("ignored"), r.ones());
  };
  all.push_back(golden<Accuracy>("accuracy", weighted));
  all.push_back(golden<Accuracy>("accuracy_top3", weighted, AccuracyOptions{.top_k = 3}));
  all.push_back(golden<Accuracy>("ignored_accuracy", ignored));
  all.push_back(golden<Accuracy>("ignored_accuracy_top2", ignored, AccuracyOptions{.top_k = 2}));
  all.push_back(golden<Accuracy>("accuracy_binary", [](Accuracy& m, const Rows& r) {
    m.update(r.values("probabilities"), r.ids("labels"), r.weights());
  }));
  add_class_metric<Precision>(all, "precision");
  add_class_metric<Recall>(all, "recall");
  add_class_metric<F1>(all, "f1");
  for (const Normalize normalize :
       {Normalize::none, Normalize::targets, Normalize::predictions, Normalize::all}) {
    const ConfusionMatrixOptions options = {.classes = 6, .normalize = normalize};
    const auto by_weight = [](ConfusionMatrix& m, const Rows& r) {
      m.update(r.values("logits"), r.ids("targets"), r.weights());
    };
    const auto without_ignored = [](ConfusionMatrix& m, const Rows& r) {
      m.update(r.values("logits"), r.ids("ignored"), r.ones());
    };
    all.push_back(golden<ConfusionMatrix>(text("confusion_", name_of(normalize)), by_weight, options));
    all.push_back(
        golden<ConfusionMatrix>(text("ignored_confusion_", name_of(normalize)), without_ignored, options));
  }
  all.push_back(golden<Perplexity>("ignored_perplexity", [](Perplexity& m, const Rows& r) {
    m.update(r.values("token_logits"), r.ids("tokens"), r.ones());
  }));
  const auto first = [](auto& m, const Rows& r) {
    m.update(r.values("guesses").select(1, 0), r.values("truth").select(1, 0), r.weights());
  };
  const auto outputs = [](R2& m, const Rows& r) {
    m.update(r.values("guesses"), r.values("truth"), r.weights());
  };
  all.push_back(golden<MeanSquaredError>("mse", first));
  all.push_back(golden<MeanSquaredError>("rmse", first, MeanSquaredErrorOptions{.root = true}));
  all.push_back(golden<MeanAbsoluteError>("mae", first));
  all.push_back(golden<R2>("r2", first));
  for (const OutputAverage average :
       {OutputAverage::uniform, OutputAverage::variance_weighted, OutputAverage::none})
    all.push_back(
        golden<R2>(text("r2_", name_of(average)), outputs, R2Options{.outputs = 3, .average = average}));
  all.push_back(golden<R2>(
      "unweighted_r2",
      [](R2& m, const Rows& r) {
        m.update(r.values("guesses").slice(1, 0, 2), r.values("truth").slice(1, 0, 2), r.ones());
      },
      R2Options{.outputs = 2}));
  all.push_back(golden<Mean>("mean", [](Mean& m, const Rows& r) {
    m.update(r.values("truth").select(1, 0).contiguous(), r.weights());
  }));
  return all;
}

void update_rows(const GoldenMetric& each, Metric& metric, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; row += batch_rows)
    each.update(metric, {row, std::min(row + batch_rows, last)});
}

/// The largest difference of two tensors of one shape, relative where values are above 1; NaN where shapes
/// differ.
double difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::quiet_NaN();
  double largest = 0;
  const Tensor x = a.contiguous(), y = b.contiguous();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double p = x.data<double>()[i], q = y.data<double>()[i];
    if (std::isnan(p) || std::isnan(q)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, std::abs(p - q) / std::max(1.0, std::abs(q)));
  }
  return largest;
}

/// torchmetrics divides its counts in f32: 2^-24 for a quotient, and as much for each value of a mean. Sums
/// of 200 values in f64 differ by their order alone.
double tolerance(const std::string& name) {
  const bool f32_quotient = name.starts_with("ignored_") && name != "ignored_perplexity";
  return f32_quotient ? 2e-7 : 1e-12;
}

}  // namespace

TEST_CASE("metrics: the values of scikit-learn and torchmetrics, in padded batches") {
  REQUIRE(goldens().at("weights").numel() == all_rows);
  for (const GoldenMetric& each : golden_metrics()) {
    CAPTURE(each.name);
    const std::unique_ptr<Metric> metric = each.make();
    update_rows(each, *metric, 0, all_rows);
    CHECK(difference(metric->compute(), goldens().at(each.name)) <= tolerance(each.name));
    metric->reset();
    update_rows(each, *metric, 0, all_rows);
    CHECK(difference(metric->compute(), goldens().at(each.name)) <= tolerance(each.name));
  }
}

TEST_CASE("metrics: every golden of a result is compared") {
  std::map<std::string, bool> used;
  for (const GoldenMetric& each : golden_metrics()) used[each.name] = true;
  for (const char* input : {"logits", "targets", "ignored", "weights", "probabilities", "labels", "truth",
                            "guesses", "token_logits", "tokens"})
    used[input] = true;
  for (const auto& entry : goldens()) {
    CAPTURE(entry.first);
    CHECK((used[entry.first] || entry.first.starts_with("empty_")));
  }
}

TEST_CASE("metrics: ranks with unequal shares, and without samples, get the value of all samples") {
  const std::vector<std::vector<int64_t>> shares = {
      {0, 40}, {0, 13, 40}, {0, 40, 40}, {0, 0, 40}, {0, 20, 25, 40}, {0, 5, 5, 40}, {0, 1, 30, 30, 40}};
  const std::vector<GoldenMetric> metrics = golden_metrics();
  for (const std::vector<int64_t>& cuts : shares) {
    const int ranks = static_cast<int>(cuts.size()) - 1;
    const auto results = on_ranks<std::vector<NamedTensor>>(ranks, [&](dist::World& world) {
      MetricCollection collection;
      for (const GoldenMetric& each : metrics) {
        Metric& metric = collection.add(each.name, each.make());
        update_rows(each, metric, cuts[static_cast<size_t>(world.rank())],
                    cuts[static_cast<size_t>(world.rank()) + 1]);
      }
      return collection.compute(world.communicator());
    });
    for (const std::vector<NamedTensor>& of_rank : results) {
      REQUIRE(of_rank.size() == metrics.size());
      for (size_t i = 0; i < of_rank.size(); ++i) {
        CAPTURE(ranks);
        CAPTURE(of_rank[i].name);
        CHECK(difference(of_rank[i].tensor, goldens().at(of_rank[i].name)) <= tolerance(of_rank[i].name));
        CHECK(difference(of_rank[i].tensor, results[0][i].tensor) == 0);
      }
    }
  }
}

TEST_CASE("metrics: without an update the values are torchmetrics', on ranks too") {
  const auto values = on_ranks<std::vector<NamedTensor>>(2, [](dist::World& world) {
    MetricCollection collection;
    collection.add<Accuracy>("accuracy");
    collection.add<Precision>("precision", {.classes = 6});
    collection.add<Recall>("recall", {.classes = 6});
    collection.add<F1>("f1", {.classes = 6});
    collection.add<ConfusionMatrix>("confusion", {.classes = 6, .normalize = Normalize::targets});
    collection.add<Perplexity>("perplexity");
    collection.add<MeanSquaredError>("mse");
    collection.add<MeanAbsoluteError>("mae");
    collection.add<Mean>("mean");
    std::vector<NamedTensor> all = collection.compute();
    for (NamedTensor& value : collection.compute(world.communicator())) all.push_back(std::move(value));
    return all;
  });
  for (const auto& of_rank : values) {
    REQUIRE(of_rank.size() == 18);
    for (const NamedTensor& value : of_rank) {
      const Tensor& tensor = value.tensor;
      CAPTURE(value.name);
      const Tensor& expected = goldens().at("empty_" + value.name);
      REQUIRE(tensor.shape() == expected.shape());
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        const double given = tensor.data<double>()[i], wanted = expected.data<double>()[i];
        CHECK((given == wanted || (std::isnan(given) && std::isnan(wanted))));
      }
    }
  }
  CHECK(std::isnan(R2().compute().item()));  // torchmetrics throws; scikit-learn's value of one sample
}
