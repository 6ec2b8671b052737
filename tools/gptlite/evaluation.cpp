#include "tools/gptlite/evaluation.h"

#include "autograd/grad_mode.h"
#include "data/windows.h"

namespace tessera::gptlite {
namespace {

/// Evaluation mode and no recording while it lives.
class Evaluating {
 public:
  explicit Evaluating(models::Gpt& gpt) : gpt_(gpt), was_training_(gpt.is_training()) { gpt.eval(); }
  ~Evaluating() { gpt_.train(was_training_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  models::Gpt& gpt_;
  bool was_training_;
  NoGrad no_grad_;
};

double batch_loss(models::Gpt& gpt, const data::Batch& batch) {
  const Device device = gpt.wte.weight.device();
  return gpt(batch.x.to(device), batch.y.to(device)).item();
}

}  // namespace

std::optional<double> evaluate(models::Gpt& gpt, const data::Tokens& text, const EvaluationOptions& options) {
  const Evaluating evaluating(gpt);
  const auto mean = [&](const data::BatchSource& source, int64_t steps,
                        auto weight) -> std::optional<double> {
    double sum = 0, weights = 0;
    for (int64_t step = 0; step < steps; ++step) {
      if (options.stop && options.stop()) return std::nullopt;
      const data::Batch batch = source.batch(step);
      sum += batch_loss(gpt, batch) * weight(batch);
      weights += weight(batch);
    }
    return sum / weights;
  };
  if (options.batches > 0) {
    const data::RandomWindows windows(text, {.block = gpt.o.block_size,
                                             .batch_size = options.batch_size,
                                             .seed = options.seed,
                                             .stream = data::WindowStream::estimate});
    return mean(windows, options.batches, [](const data::Batch&) { return 1.0; });
  }
  const data::ConsecutiveWindows windows(text, {.block = gpt.o.block_size, .batch_size = options.batch_size});
  return mean(windows, windows.steps(),
              [&](const data::Batch& batch) { return static_cast<double>(windows.targets(batch)); });
}

}  // namespace tessera::gptlite
