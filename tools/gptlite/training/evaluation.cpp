#include "tools/gptlite/training/evaluation.h"

#include "autograd/grad_mode.h"
#include "data/text/windows.h"

namespace tessera::gptlite {
namespace {

/// Puts a model into evaluation mode and stops recording; the destructor restores the mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(models::Gpt& gpt) : gpt_(gpt), was_training_(gpt.is_training()) { gpt.eval(); }
  ~EvaluationMode() { gpt_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  models::Gpt& gpt_;
  bool was_training_;
  NoGrad no_grad_;
};

double batch_loss(models::Gpt& gpt, const data::Batch& batch) {
  const Device device = gpt.wte.weight.device();
  return gpt.loss(batch.x.to(device), batch.y.to(device)).item();
}

/// The mean of the batches' losses over all ranks, weighted; the weight of this rank's share may be 0.
template <class Weight>
std::optional<double> weighted_mean(models::Gpt& gpt, const data::BatchSource& source, int64_t steps,
                                    const EvaluationOptions& options, Weight weight) {
  double sum = 0, weights = 0;
  for (int64_t step = 0; step < steps; ++step) {
    if (options.stop && options.stop()) return std::nullopt;
    const data::Batch batch = source.batch(step);
    const double loss = batch_loss(gpt, batch), batch_weight = weight(batch);
    if (batch_weight == 0) continue;  // all padding: its mean is undefined
    sum += loss * batch_weight;
    weights += batch_weight;
  }
  return options.ranks.sum(sum) / options.ranks.sum(weights);
}

}  // namespace

std::optional<double> evaluate(models::Gpt& gpt, const data::Tokens& text, const EvaluationOptions& options) {
  const EvaluationMode mode(gpt);
  const int rank = options.ranks.rank(), world = options.ranks.size();
  const int64_t batch_size = options.batch_size * world, block = gpt.o.block_size;
  if (options.batches > 0) {
    const data::RandomWindows windows(text, {.block = block,
                                             .batch_size = batch_size,
                                             .seed = options.seed,
                                             .stream = data::WindowStream::estimate,
                                             .rank = rank,
                                             .world_size = world});
    return weighted_mean(gpt, windows, options.batches, options, [](const data::Batch&) { return 1.0; });
  }
  const data::ConsecutiveWindows windows(
      text, {.block = block, .batch_size = batch_size, .pad = world > 1, .rank = rank, .world_size = world});
  return weighted_mean(gpt, windows, windows.steps(), options,
                       [&](const data::Batch& batch) { return static_cast<double>(windows.targets(batch)); });
}

}  // namespace tessera::gptlite
