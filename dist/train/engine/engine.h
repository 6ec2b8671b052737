#pragma once  // not in tessera.h

#include <iterator>
#include <utility>

#include "autograd/autocast/autocast.h"
#include "autograd/grad_mode.h"
#include "data/batch.h"
#include "dist/train/engine/engine_core.h"
#include "tensor/error.h"

namespace tessera::training {

/// A model and the step of its training, on one rank or many:
///
///     training::Engine engine(model, {.config = {.micro_batch_size = 8, .gradient_clip = 1.0},
///                                  .optimizer = [](const ParameterList& p) { return make<optim::AdamW>(p,
///                                  ...); }});
///     for (auto& [x, y] : loader) {
///       const Variable loss = nn::cross_entropy(engine(x), y);
///       engine.backward(loss);
///       engine.step();
///     }
///
/// There is no zero_grad: a step that updates removes the gradients.
template <class Model>
class Engine : public EngineCore {
 public:
  /// As EngineCore. The model must outlive the engine.
  explicit Engine(Model& model, EngineOptions options)
      : EngineCore(model, std::move(options)), typed_(model) {}

  /// The model's forward, under autocast to the dtype of computation (autograd/autocast/autocast.h): inputs
  /// keep their dtypes. Throws ConfigError in stages.
  template <class... Inputs>
  decltype(auto) operator()(Inputs&&... inputs) {
    require<ConfigError>(!pipeline(),
                         "Engine: a forward of the whole model: in stages it is cut, and train_batch and "
                         "eval_batch run its layers");
    if (typed_.is_training()) begin_micro_batch();
    const ForwardScope scope(*this);
    return typed_(std::forward<Inputs>(inputs)...);
  }

  /// One step of the optimizer: takes gradient_accumulation_steps() batches from `batches`, an iterator of a
  /// loader, and calls `loss(batch)`, the mean loss of each. Returns the mean loss of the step on this rank.
  /// `batches` then stands after the last one taken. Throws ValueError where `batches` reaches `end` within
  /// the step.
  template <std::input_or_output_iterator Iterator, std::sentinel_for<Iterator> End, class Loss>
  double train_batch(Iterator& batches, const End& end, Loss&& loss) {
    double sum = 0;
    const int64_t count = gradient_accumulation_steps();
    for (int64_t i = 0; i < count; ++i, ++batches) {
      require<ValueError>(batches != end, "Engine::train_batch: expected ", count, " batches, got ", i);
      const Variable value = loss(*batches);
      sum += value.value().item();
      backward(value);
      step();
    }
    return sum / static_cast<double>(count);
  }
  /// One step in stages: forward and backward of its batches by the schedule, and the update. Layers and loss
  /// are the engine's (`EngineOptions::layers`), and so is what they take from a batch. Returns the mean loss
  /// of the step, on every rank. Throws ConfigError without stages, and as the other one.
  template <std::input_or_output_iterator Iterator, std::sentinel_for<Iterator> End>
  double train_batch(Iterator& batches, const End& end) {
    require<ConfigError>(pipeline() != nullptr,
                         "Engine::train_batch: expected a loss, or an engine with stages");
    const int64_t count = gradient_accumulation_steps();
    require<ConfigError>(micro_steps() % count == 0, "Engine::train_batch: expected the end of a step, got ",
                         micro_steps() % count, " of ", count, " micro-batches");
    std::vector<dist::MicroBatch> micro_batches;
    for (int64_t i = 0; i < count; ++i, ++batches) {
      require<ValueError>(batches != end, "Engine::train_batch: expected ", count, " batches, got ", i);
      micro_batches.push_back(stage_batch(*batches));
    }
    const ForwardScope scope(*this);
    std::optional<double> loss;
    for (dist::MicroBatch& batch : micro_batches) {
      loss = run_in_stages(std::move(batch));
      step();
    }
    return *loss;
  }
  /// The mean loss of the batches in stages, on every rank, without gradients, the model in evaluation
  /// meanwhile. Throws ConfigError without stages.
  template <class Batches>
  double eval_batch(Batches&& batches) {
    require<ConfigError>(pipeline() != nullptr,
                         "Engine::eval_batch: expected a loss, or an engine with stages");
    const bool was_training = typed_.is_training();
    typed_.eval();
    double sum = 0, weight = 0;
    for (const data::Batch& batch : batches) {
      const StageEvaluation of_batch = evaluate_in_stages(batch);
      sum += of_batch.samples * of_batch.loss;
      weight += of_batch.samples;
    }
    typed_.train(was_training);
    return weight > 0 ? sum / weight : 0;
  }
  /// The mean loss of the batches without gradients, the model in evaluation meanwhile; `loss` gets them
  /// without rows of padding.
  template <class Batches, class Loss>
  double eval_batch(Batches&& batches, Loss&& loss) {
    const bool was_training = typed_.is_training();
    typed_.eval();
    double sum = 0, weight = 0;
    const NoGrad no_grad;
    for (const data::Batch& batch : batches) {
      const double value = loss(batch.without_padding()).value().item();
      const auto size = static_cast<double>(batch.unpadded_size());
      if (size > 0) sum += size * value;
      weight += size;
    }
    typed_.train(was_training);
    return weight > 0 ? sum / weight : 0;
  }

 private:
  Model& typed_;
};

}  // namespace tessera::training
