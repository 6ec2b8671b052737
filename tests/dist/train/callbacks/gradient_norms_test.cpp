#include "dist/train/callbacks/reports/gradient_norms.h"

#include <doctest/doctest.h>

#include "nn/materialize.h"
#include "tests/dist/train/callbacks/small_run.h"

using namespace small_run;

namespace {

/// Norms of the first step on one process, each element added in f64.
std::map<std::string, double> expected_norms(double p) {
  Classifier net;
  nn::materialize(net, cpu(), 42);
  const data::Batch batch = [&] {
    struct Keep : Callback {
      data::Batch first;
      void on_train_batch_start(Trainer& trainer, Task&, const data::Batch& given, int64_t) override {
        first = given;
        trainer.stop();
      }
    };
    const auto keep = std::make_shared<Keep>();
    Points data;
    Classifier task;
    Trainer trainer({.max_steps = 1, .callbacks = {keep}});
    trainer.fit(task, data);
    return keep->first;
  }();
  nn::cross_entropy(net(batch.x), batch.y).backward();
  std::map<std::string, double> sums;
  for (const NamedParameter& parameter : net.parameters()) {
    const Tensor gradient = parameter.grad().value().contiguous();
    for (int64_t i = 0; i < gradient.numel(); ++i)
      sums[parameter.name.substr(0, parameter.name.find('.'))] +=
          std::pow(std::abs(static_cast<double>(gradient.data<float>()[i])), p);
  }
  double all = 0;
  for (auto& [name, sum] : sums) {
    all += sum;
    sum = std::pow(sum, 1 / p);
  }
  sums["total"] = std::pow(all, 1 / p);
  return sums;
}

std::string difference(const GradientNorms& norms, const std::map<std::string, double>& expected) {
  std::string problems;
  const auto compare = [&](const std::string& name, double value) {
    if (!(std::abs(value - expected.at(name)) < 1e-6 * expected.at(name)))
      problems += text(name, ": ", value, " for ", expected.at(name), "; ");
  };
  for (const auto& [name, value] : norms.norms()) compare(name, value);
  compare("total", norms.total());
  if (norms.norms().size() != 2) problems += "other layers";
  return problems;
}

}  // namespace

TEST_CASE("gradient norms: by layer, before clipping, and under every strategy those of one process") {
  for (const double p : {2.0, 1.0, 3.0}) {
    const std::map<std::string, double> expected = expected_norms(p);
    const auto recorder = std::make_shared<Recorder>();
    const auto norms = std::make_shared<GradientNorms>(GradientNormsOptions{.p = p});
    Points data;
    Classifier task;
    Trainer trainer({.max_steps = 1, .gradient_clip = 1e-3, .callbacks = {norms}, .monitors = {recorder}});
    trainer.fit(task, data);
    CHECK(difference(*norms, expected) == "");
    CHECK(recorder->series("grad_norm") == Series{{1, norms->total()}});
    CHECK(recorder->series("grad_norm/first") == Series{{1, norms->norms().at("first")}});
    for (const char* strategy : {"ddp", "shard_optim", "shard_grad_op", "full_shard"}) {
      CAPTURE(std::string(strategy));
      test::require_no_problems(2, [&](dist::World& world) -> std::vector<std::string> {
        const auto of_ranks = std::make_shared<GradientNorms>(GradientNormsOptions{.p = p});
        Points own(&world);
        Classifier net;
        Trainer ranks({.max_steps = 1,
                       .strategy = strategy,
                       .gradient_clip = 1e-3,
                       .callbacks = {of_ranks},
                       .world = &world});
        ranks.fit(net, own);
        const std::string problems = difference(*of_ranks, expected);
        return problems.empty() ? std::vector<std::string>{} : std::vector<std::string>{problems};
      });
    }
  }
}

TEST_CASE("gradient norms: without the loss scale, by the depth of paths, every so many steps") {
  struct Deep : TaskOf<Deep> {
    Classifier& inner = add<Classifier>("inner");
    Variable training_step(const data::Batch& batch, int64_t) override {
      return nn::cross_entropy(inner.forward(batch.x), batch.y);
    }
    Variable forward(const Variable& x) { return inner.forward(x); }
    void validation_step(const data::Batch&, int64_t) override {}
    OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
      return {std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.1})};
    }
  };
  const auto norms_of = [](GradientNormsOptions options, PrecisionMode precision, Recorder* seen = nullptr) {
    const auto recorder = std::make_shared<Recorder>();
    const auto norms = std::make_shared<GradientNorms>(options);
    Points data;
    Deep task;
    Trainer trainer({.max_steps = 3, .precision = precision, .callbacks = {norms}, .monitors = {recorder}});
    trainer.fit(task, data);
    if (seen) seen->rows = recorder->rows;
    return norms->norms();
  };
  const auto all = norms_of({}, PrecisionMode::f32);
  REQUIRE(all.size() == 2);
  CHECK(all.contains("inner.second"));
  const auto top = norms_of({.depth = 1}, PrecisionMode::f32);
  REQUIRE(top.size() == 1);
  CHECK(top.at("inner") == doctest::Approx(std::hypot(all.at("inner.first"), all.at("inner.second"))));
  const auto scaled = norms_of({}, PrecisionMode::f16);
  for (const auto& [name, value] : all) CHECK(scaled.at(name) == doctest::Approx(value).epsilon(0.05));
  Recorder seen;
  norms_of({.every_steps = 2}, PrecisionMode::f32, &seen);
  REQUIRE(seen.series("grad_norm").size() == 1);
  CHECK(seen.series("grad_norm")[0].first == 2);
  CHECK(contains(message_of<ConfigError>([] { GradientNorms n({.p = 0}); }), "p 0"));
  CHECK(contains(message_of<ConfigError>([] { GradientNorms n({.every_steps = 0}); }), "every_steps 0"));
  CHECK(contains(message_of<ConfigError>([] { GradientNorms n({.depth = 0}); }), "depth 0"));
}
