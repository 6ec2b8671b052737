#include "dist/train/callbacks/reports/gradient_norms.h"

#include <cmath>
#include <utility>
#include <vector>

#include "dist/train/trainer/trainer.h"
#include "tensor/error.h"
#include "tensor/ops/training/multi_tensor.h"

namespace tessera::training {
namespace {

/// The first `depth` names of the path of a parameter's module.
std::string layer_of(const std::string& parameter, int depth) {
  const size_t dot = parameter.rfind('.');
  if (dot == parameter.npos) return "(root)";
  std::string path = parameter.substr(0, dot);
  size_t end = 0;
  for (int i = 0; i < depth; ++i) {
    end = path.find('.', end);
    if (end == path.npos) return path;
    if (i + 1 == depth) return path.substr(0, end);
    ++end;
  }
  return path;
}

/// Each gradient's sum of |g|^p of this rank.
std::vector<double> power_sums_of(const ParameterList& parameters, double p) {
  std::vector<Tensor> gradients;
  for (const NamedParameter& parameter : parameters) {
    const Variable gradient = parameter.grad();
    gradients.push_back(gradient.defined() ? gradient.value() : Tensor());
  }
  std::vector<double> sums(gradients.size());
  const Tensor all = ops::power_sums(gradients, p);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = all.data<double>()[i];
  return sums;
}

}  // namespace

GradientNorms::GradientNorms(GradientNormsOptions options) : options_(options) {
  require<ConfigError>(options_.every_steps >= 1, "GradientNorms: every_steps ", options_.every_steps,
                       ": expected 1 or more");
  require<ConfigError>(options_.p > 0 && std::isfinite(options_.p), "GradientNorms: p ", options_.p,
                       ": expected a finite number above 0");
  require<ConfigError>(options_.depth >= 1 || options_.depth == -1, "GradientNorms: depth ", options_.depth,
                       ": expected -1, or 1 or more");
}

void GradientNorms::on_before_optimizer_step(Trainer& trainer, Task&) {
  is_due_ = (trainer.global_step() + 1) % options_.every_steps == 0;
  if (!is_due_) return;
  EngineCore& engine = trainer.engine();
  const ParameterList& parameters = engine.optimizer().parameters();
  const std::vector<double> sums = power_sums_of(parameters, options_.p);
  std::map<std::string, size_t> places;
  for (const NamedParameter& parameter : parameters)
    places.emplace(layer_of(parameter.name, options_.depth), places.size());
  // Shards are summed over ranks. A parameter that sharding ignores is complete on each rank.
  std::vector<double> of_shards(places.size()), of_full(places.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const size_t place = places.at(layer_of(parameters[i].name, options_.depth));
    (parameters[i].shard ? of_shards : of_full)[place] += sums[i];
  }
  if (parameters.reducer()) parameters.reducer()->sum_over_shards(of_shards);
  const double p = options_.p, scale = engine.loss_scale();
  const auto root = [&](double sum) {
    return (p == 2 ? std::sqrt(sum) : p == 1 ? sum : std::pow(sum, 1 / p)) / scale;
  };
  norms_.clear();
  double all = 0;
  for (const auto& [layer, place] : places) {
    const double sum = of_shards[place] + of_full[place];
    norms_[layer] = root(sum);
    all += sum;
  }
  total_ = root(all);
}

void GradientNorms::on_train_batch_end(Trainer& trainer, Task&, const data::Batch&, int64_t) {
  if (!std::exchange(is_due_, false)) return;
  trainer.report("grad_norm", total_);
  for (const auto& [layer, norm] : norms_) trainer.report("grad_norm/" + layer, norm);
}

}  // namespace tessera::training
