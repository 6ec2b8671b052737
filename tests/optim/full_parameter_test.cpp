#include <doctest/doctest.h>

#include <json/value.h>

#include <cmath>
#include <map>

#include "optim/clip.h"
#include "optim/rules/adafactor.h"
#include "optim/rules/lamb.h"
#include "optim/rules/muon.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

Tensor cast(const Tensor& x, DType dtype) {
  Tensor y = Tensor::empty(x.shape(), dtype);
  for (int64_t i = 0; i < x.numel(); ++i)
    if (dtype == f64)
      y.data<double>()[i] = x.data<double>()[i];
    else
      y.data<float>()[i] = static_cast<float>(x.data<double>()[i]);
  return y;
}

double element(const Tensor& x, int64_t i) {
  return x.dtype() == f64 ? x.data<double>()[i] : static_cast<double>(x.data<float>()[i]);
}

/// The problem of full_parameters.safetensors: parameters that minimise a quadratic.
struct Problem {
  Problem(const Goldens& file, bool matrices_only, DType dtype = f64) : goldens(file) {
    for (const char* name : {"tall", "cube", "wide", "vector"}) {
      const Tensor start = goldens.tensor(text("problem/start_", name));
      if (matrices_only && start.ndim() != 2) continue;
      const bool first = std::string_view(name) == "tall" || std::string_view(name) == "cube";
      groups[first ? 0 : 1].push_back({name, Variable::parameter(cast(start, dtype))});
    }
  }
  /// Sets the gradients of step t, from 0.
  void set_gradients(int64_t t) const {
    const double wobble = element(goldens.tensor("problem/wobble"), t);
    for (const ParameterList& group : groups)
      for (const NamedParameter& p : group) {
        const Tensor target = goldens.tensor("problem/target_" + p.name),
                     curvature = goldens.tensor("problem/curvature_" + p.name);
        Tensor gradient = Tensor::empty(target.shape(), f64);
        for (int64_t i = 0; i < gradient.numel(); ++i)
          gradient.data<double>()[i] =
              wobble * (element(curvature, i) * (element(p.variable.value(), i) - element(target, i)));
        p.variable.set_grad(Variable(cast(gradient, p.variable.dtype())));
      }
  }
  const Goldens& goldens;
  ParameterList groups[2];
};

using Make = std::unique_ptr<optim::Optimizer> (*)(const Json::Value& groups, const Problem& problem);

template <class Optimizer>
std::unique_ptr<optim::Optimizer> make(const Problem& problem, typename Optimizer::Options first,
                                       typename Optimizer::Options second) {
  using Group = optim::ParameterGroup<typename Optimizer::Options>;
  return std::make_unique<Optimizer>(
      std::vector<Group>{{problem.groups[0], first}, {problem.groups[1], second}});
}

optim::AdafactorOptions read_adafactor(const Json::Value& o) {
  return {.lr = o["lr"].asDouble(),
          .beta2_decay = o["beta2_decay"].asDouble(),
          .eps = {o["eps"][0].isNull() ? 0.0 : o["eps"][0].asDouble(), o["eps"][1].asDouble()},
          .d = o["d"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .maximize = o["maximize"].asBool()};
}

optim::LambOptions read_lamb(const Json::Value& o) {
  const std::string correction = o["bias_correction"].asString();
  return {.lr = o["lr"].asDouble(),
          .betas = {o["betas"][0].asDouble(), o["betas"][1].asDouble()},
          .eps = o["eps"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .maximize = o["maximize"].asBool(),
          .min_coeff = o["min_coeff"].asDouble(),
          .max_coeff = o["max_coeff"].isNull() ? INFINITY : o["max_coeff"].asDouble(),
          .bias_correction = correction == "means"  ? optim::LambBiasCorrection::means
                             : correction == "rate" ? optim::LambBiasCorrection::rate
                                                    : optim::LambBiasCorrection::none};
}

optim::MuonOptions read_muon(const Json::Value& o) {
  const std::string rate = o["adjust_lr_fn"].isNull() ? "original" : o["adjust_lr_fn"].asString();
  return {.lr = o["lr"].asDouble(),
          .weight_decay = o["weight_decay"].asDouble(),
          .momentum = o["momentum"].asDouble(),
          .nesterov = o["nesterov"].asBool(),
          .eps = o["eps"].asDouble(),
          .ns_steps = o["ns_steps"].asInt64(),
          .adjust_lr_fn = rate == "original"          ? optim::MuonRate::original
                          : rate == "match_rms_adamw" ? optim::MuonRate::match_rms_adamw
                                                      : optim::MuonRate::spectral_unclamped};
}

std::unique_ptr<optim::Optimizer> optimizer_of(const Json::Value& options, const Problem& problem) {
  const Json::Value& groups = options["groups"];
  const std::string kind = options["optimizer"].asString();
  if (kind == "Adafactor")
    return make<optim::Adafactor>(problem, read_adafactor(groups[0]), read_adafactor(groups[1]));
  if (kind == "Lamb") return make<optim::Lamb>(problem, read_lamb(groups[0]), read_lamb(groups[1]));
  return make<optim::Muon>(problem, read_muon(groups[0]), read_muon(groups[1]));
}

bool is_muon(const Json::Value& options) {
  return options["optimizer"].asString() == "Muon";
}

ParameterList one(const Shape& shape, std::optional<ShardInfo> shard = {}) {
  return ParameterList({{"fc.weight", Variable::parameter(Tensor::zeros(shape, f32)), {}, shard}});
}

}  // namespace

TEST_CASE("full parameters: 40 steps equal PyTorch's and the papers', with two groups") {
  const Goldens goldens("full_parameters.safetensors");
  CHECK(goldens.cases().size() == 8);
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const Json::Value options = goldens.options(name);
    const Problem problem(goldens, is_muon(options));
    const auto optimizer = optimizer_of(options, problem);
    for (int64_t t = 0; t < 40; ++t) {
      problem.set_gradients(t);
      optimizer->step();
      const int64_t n = t + 1;
      if (n != 1 && n != 2 && n != 10 && n != 40) continue;
      CAPTURE(n);
      for (const NamedParameter& p : optimizer->parameters()) {
        const double difference =
            relative_difference(p.variable.value(), goldens.tensor(text(name, "/step", n, "/", p.name)));
        CAPTURE(p.name);
        CHECK(difference < 1e-9);
      }
    }
  }
}

TEST_CASE("full parameters: f32 follows the f64 goldens to f32's precision") {
  const Goldens goldens("full_parameters.safetensors");
  for (const std::string& name : goldens.cases()) {
    CAPTURE(name);
    const Json::Value options = goldens.options(name);
    const Problem problem(goldens, is_muon(options), f32);
    const auto optimizer = optimizer_of(options, problem);
    for (int64_t t = 0; t < 10; ++t) {
      problem.set_gradients(t);
      optimizer->step();
    }
    // Ten roundings at 6e-8, raised by the five products of each of Muon's steps.
    for (const NamedParameter& p : optimizer->parameters())
      CHECK(relative_difference(p.variable.value(), goldens.tensor(text(name, "/step10/", p.name))) < 1e-3);
  }
}

TEST_CASE("full parameters: a run that was saved and loaded continues with the same bits") {
  const Goldens goldens("full_parameters.safetensors");
  for (const std::string& name : goldens.cases())
    for (const DType dtype : {f64, f32}) {
      CAPTURE(name);
      const Json::Value options = goldens.options(name);
      const Problem uninterrupted(goldens, is_muon(options), dtype),
          resumed(goldens, is_muon(options), dtype);
      const auto first = optimizer_of(options, uninterrupted), second = optimizer_of(options, resumed);
      for (int64_t t = 0; t < 7; ++t) {
        uninterrupted.set_gradients(t);
        first->step();
      }
      for (size_t i = 0; i < first->parameters().size(); ++i)
        second->parameters()[i].variable.value().copy_from(first->parameters()[i].variable.value());
      second->set_lr(123.0);  // the saved rates must replace it
      second->load_state(first->state());
      for (int64_t t = 7; t < 12; ++t) {
        uninterrupted.set_gradients(t);
        first->step();
        resumed.set_gradients(t);
        second->step();
      }
      for (size_t i = 0; i < first->parameters().size(); ++i)
        CHECK(same_bits(second->parameters()[i].variable.value(), first->parameters()[i].variable.value()));
    }
}

TEST_CASE("full parameters: Adafactor's state of a matrix is a row and a column") {
  ParameterList list = one({6, 4});
  list.push_back({"conv", Variable::parameter(Tensor::zeros({2, 3, 4}, f32))});
  list.push_back({"bias", Variable::parameter(Tensor::zeros({4}, f32))});
  optim::Adafactor adafactor(list);
  std::map<std::string, Shape> shapes;
  for (const NamedTensor& entry : adafactor.state().tensors) shapes[entry.name] = entry.tensor.shape();
  CHECK(shapes.size() == 8);  // with a step each
  CHECK(shapes.at("row_var/fc.weight") == Shape{6, 1});
  CHECK(shapes.at("col_var/fc.weight") == Shape{1, 4});
  CHECK(shapes.at("row_var/conv") == Shape{2, 3, 1});
  CHECK(shapes.at("col_var/conv") == Shape{2, 1, 4});
  CHECK(shapes.at("variance/bias") == Shape{4});
}

TEST_CASE("full parameters: Adafactor moves a parameter of zeros by the least root mean square") {
  // The first second mean is g^2, so the update is the sign of g, of root mean square 1.
  const ParameterList list({{"p", Variable::parameter(Tensor::from({0.0, 0.0}))}});
  optim::Adafactor adafactor(list, {.lr = 0.5, .eps = {0.0, 0.25}});
  list[0].variable.set_grad(Variable(Tensor::from({3.0, -4.0})));
  adafactor.step();
  CHECK(list[0].variable.value().data<double>()[0] == doctest::Approx(-0.125).epsilon(1e-14));
  CHECK(list[0].variable.value().data<double>()[1] == doctest::Approx(0.125).epsilon(1e-14));
}

TEST_CASE("full parameters: a clip coefficient is applied in the step") {
  const ParameterList a = one({2, 2}), b = one({2, 2});
  optim::Lamb clipped(a, {.eps = 1.0}), scaled(b, {.eps = 1.0});
  a[0].variable.set_grad(Variable(Tensor::from({8.0f, 4.0f, -2.0f, 1.0f}, {2, 2})));
  b[0].variable.set_grad(Variable(Tensor::from({2.0f, 1.0f, -0.5f, 0.25f}, {2, 2})));
  clipped.step({.clip = Tensor::scalar(0.25)});
  scaled.step();
  CHECK(same_bits(a[0].variable.value(), b[0].variable.value()));
}

TEST_CASE("full parameters: shards are refused by name, with what works instead") {
  const ParameterList shards = one({5}, ShardInfo{{6, 4}, 3});
  const auto refused = [](const char* optimizer, const char* reason) {
    return doctest::Contains(text(optimizer, ": this rank has a shard of parameter 'fc.weight' (6, 4), and ",
                                  reason, ": use an elementwise optimizer (AdamW, Lion, ...), or strategy")
                                 .c_str());
  };
  CHECK_THROWS_WITH_AS(optim::Adafactor{shards},
                       refused("Adafactor", "its second mean is over rows and columns of full parameters"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Muon{shards}, refused("Muon", "its step multiplies full matrices"),
                       ConfigError);
  optim::Adafactor adafactor(one({2}));
  CHECK_THROWS_AS(adafactor.add_param_group({shards, {}}), ConfigError);
  CHECK(adafactor.group_count() == 1);
}

TEST_CASE("full parameters: Lamb takes shards with a reducer that sums over them") {
  const ParameterList shards = one({5}, ShardInfo{{6, 4}, 3});
  CHECK_THROWS_WITH_AS(
      optim::Lamb{shards},
      doctest::Contains("Lamb: the list holds a shard of parameter 'fc.weight' and no reducer"), ConfigError);
  optim::Lamb lamb(one({2}));
  CHECK_THROWS_AS(lamb.add_param_group({shards, {}}), ConfigError);
  CHECK(lamb.group_count() == 1);
  struct NoSums : ParameterReducer {
    double power_sum(const ParameterList&, double) override { return 0; }
    double largest(double value) override { return value; }
  };
  ParameterList reduced = shards;
  reduced.set_reducer(std::make_shared<NoSums>());
  CHECK_THROWS_WITH_AS(optim::Lamb(reduced).step(), doctest::Contains("no sums over the shards"),
                       ConfigError);
}

TEST_CASE("full parameters: Muon refuses what is no matrix by name") {
  CHECK_THROWS_WITH_AS(optim::Muon(one({5})),
                       doctest::Contains("Muon: expected matrices, got parameter 'fc.weight' (5,)"),
                       ValueError);
}

TEST_CASE("full parameters: defaults are PyTorch's, and options out of range are refused by name") {
  CHECK(optim::AdafactorOptions{}.lr == 1e-2);
  CHECK(optim::AdafactorOptions{}.beta2_decay == -0.8);
  CHECK(optim::MuonOptions{}.weight_decay == 0.1);
  CHECK(optim::MuonOptions{}.momentum == 0.95);
  const ParameterList p = one({2, 2});
  CHECK_THROWS_WITH_AS(optim::Adafactor(p, {.beta2_decay = 0.5}),
                       "Adafactor: expected beta2_decay to be at most 0, got 0.5", ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adafactor(p, {.d = 0.5}), "Adafactor: expected d to be at least 1, got 0.5",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Adafactor(p, {.eps = {-1.0, 0.0}}),
                       "Adafactor: expected eps[0] to be at least 0, got -1", ConfigError);
  CHECK_THROWS_AS(optim::Adafactor(p, {.eps = {0.0, -1.0}}), ConfigError);
  CHECK_THROWS_AS(optim::Adafactor(p, {.weight_decay = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::Adafactor(p, {.lr = -1.0}), ConfigError);
  CHECK_THROWS_WITH_AS(optim::Lamb(p, {.betas = {1.0, 0.9}}), "Lamb: expected betas[0] in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_AS(optim::Lamb(p, {.betas = {0.9, -1.0}}), ConfigError);
  CHECK_THROWS_AS(optim::Lamb(p, {.eps = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::Lamb(p, {.min_coeff = -1.0}), ConfigError);
  CHECK_THROWS_WITH_AS(optim::Lamb(p, {.min_coeff = 0.5, .max_coeff = 0.4}),
                       "Lamb: expected max_coeff to be at least min_coeff (0.5), got 0.4", ConfigError);
  CHECK_THROWS_AS(optim::Lamb(p, {.weight_decay = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::Lamb(p, {.lr = -1.0}), ConfigError);
  CHECK_THROWS_WITH_AS(optim::Muon(p, {.momentum = 1.0}), "Muon: expected momentum in [0, 1), got 1",
                       ConfigError);
  CHECK_THROWS_WITH_AS(optim::Muon(p, {.ns_steps = -1}), "Muon: expected ns_steps to be at least 0, got -1",
                       ConfigError);
  CHECK_THROWS_AS(optim::Muon(p, {.weight_decay = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::Muon(p, {.ns_coefficients = {1.0, 2.0, INFINITY}}), ConfigError);
  CHECK_THROWS_AS(optim::Muon(p, {.eps = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::Muon(p, {.lr = -1.0}), ConfigError);
}
