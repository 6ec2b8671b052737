#include "dist/train/metrics/perplexity.h"

#include <algorithm>
#include <cmath>

#include "dist/train/metrics/metric_input.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/loss.h"

namespace tessera::training {
namespace {

/// The target of a token that does not count, in the targets that are given to the loss.
constexpr int64_t skipped = -1;

}  // namespace

Perplexity::Perplexity(const Options& options)
    : Metric("perplexity", text("ignore_index ", ignore_index_text(options.ignore_index))),
      options_(options) {}

void Perplexity::update(const Variable& logits, const Tensor& targets, const Tensor& weights) {
  const Tensor scores = values_on_cpu(name(), "logits", logits.value());
  require<ValueError>(targets.defined(), "metric '", name(), "': expected targets, got an undefined tensor");
  check_class_scores(name(), scores, targets.shape(), 1);
  const ClassTargets counted(name(), targets, scores.size(-1), options_.ignore_index, weights);
  const Tensor ids = Tensor::empty(targets.shape(), i64);
  std::fill_n(ids.data<int64_t>(), ids.numel(), skipped);
  counted.for_each([&](int64_t i, int64_t target, double) { ids.data<int64_t>()[i] = target; });
  const Tensor losses = ops::cast(
      ops::cross_entropy(scores, ids, {}, {.ignore_index = skipped, .reduction = ops::LossReduction::none})
          .loss,
      f64);
  double sum = 0, tokens = 0;
  counted.for_each([&](int64_t i, int64_t, double weight) {
    sum += weight * losses.data<double>()[i];
    tokens += weight;
  });
  *nll_.value.data<double>() += sum;
  *tokens_.value.data<double>() += tokens;
}

void Perplexity::update_mean(const Variable& loss, double tokens) {
  require<ValueError>(std::isfinite(tokens) && tokens >= 0, "metric '", name(),
                      "': expected a number of tokens that is finite and at least 0, got ", tokens);
  const Tensor mean = doubles_on_cpu(name(), "a mean loss", loss.value());
  require<ShapeError>(mean.numel() == 1, "metric '", name(), "': expected one mean loss, got ",
                      describe(loss.value()));
  if (tokens == 0) return;
  *nll_.value.data<double>() += tokens * mean.item();
  *tokens_.value.data<double>() += tokens;
}

Tensor Perplexity::value() const {
  return Tensor::scalar(std::exp(nll_.value.item() / tokens_.value.item()));
}

}  // namespace tessera::training
