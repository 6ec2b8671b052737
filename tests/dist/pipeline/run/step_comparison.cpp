#include "tests/dist/pipeline/run/step_comparison.h"

#include <algorithm>
#include <cmath>

#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/layers/loss.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/training/multi_tensor.h"

namespace tessera::test {
namespace {

constexpr uint64_t seed = 11;

double weight_of(const dist::PipelineOptions& options, const dist::MicroBatch& batch) {
  return options.weight ? options.weight(batch.targets) : 1;
}

/// Adds the gradients of `steps` steps on one device. Returns the mean loss.
double train_one_device(const StagedModel& model, const dist::PipelineOptions& options,
                        const std::vector<dist::MicroBatch>& batches, const ComparisonOptions& comparison) {
  double total = 0, mean = 0;
  for (const dist::MicroBatch& batch : batches) total += weight_of(options, batch);
  for (int step = 0; step < comparison.steps; ++step) {
    if (comparison.before_step) comparison.before_step(*model.module, step);
    mean = 0;
    for (const dist::MicroBatch& batch : batches) {
      const double share = total > 0 ? weight_of(options, batch) / total : 0;
      const nn::LayerValues inputs(batch.inputs.begin(), batch.inputs.end());
      const Variable loss = model.layers.loss.run(nn::run_layers(model.layers.layers, inputs), batch.targets);
      if (share > 0) mean += share * loss.value().item();
      if (loss.requires_grad())
        loss.backward(Variable(ops::full(loss.shape(), share * comparison.scale, loss.dtype())));
    }
  }
  return mean;
}

std::vector<double> values_of(const Tensor& tensor, int64_t first, int64_t count) {
  const Tensor flat = ops::cast(tensor, f64).contiguous().view({-1});
  return {flat.data<double>() + first, flat.data<double>() + first + count};
}

/// The largest difference, in parts of the largest value or of 1.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, largest = 1;
  for (const double value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= most)) most = std::abs(a[i] - b[i]);
  }
  return most / largest;
}

void compare_gradients(std::vector<std::string>& problems, const nn::Module& stages, const nn::Module& whole,
                       double tolerance) {
  for (const NamedParameter& parameter : stages.parameters()) {
    const Variable expected = whole.get_parameter(parameter.name).grad(), found = parameter.variable.grad();
    if (found.defined() != expected.defined()) {
      problems.push_back(text("the gradient of '", parameter.name,
                              found.defined() ? "' is there, on one device it is not" : "' is missing"));
    } else if (found.defined()) {
      const int64_t first = parameter.shard ? parameter.shard->first : 0;
      const double most = difference(values_of(found.value(), 0, found.numel()),
                                     values_of(expected.value(), first, found.numel()));
      if (!(most <= tolerance))
        problems.push_back(text("the gradient of '", parameter.name, "' differs by ", most));
    }
  }
}

}  // namespace

nn::LayerSpec values_layer(std::string name, std::vector<const nn::Module*> modules,
                           std::function<nn::LayerValues(const nn::LayerValues&)> run) {
  return {.name = std::move(name), .kind = "function", .modules = std::move(modules), .run = std::move(run)};
}

nn::LossSpec squared_error() {
  return {.run = [](const nn::LayerValues& values, const std::vector<Tensor>& targets) {
    return mse_loss(cast(values.at(0), targets.at(0).dtype()), targets.at(0));
  }};
}

std::vector<dist::MicroBatch> regression_batches(int count, int64_t rows, int64_t width) {
  std::vector<dist::MicroBatch> batches;
  for (int m = 0; m < count; ++m) {
    std::vector<double> inputs, targets;
    for (int64_t i = 0; i < rows * width; ++i) {
      inputs.push_back(std::sin(static_cast<double>(7 * m + 3 * i + 1)));
      targets.push_back(std::cos(static_cast<double>(5 * m + 2 * i)));
    }
    batches.push_back({.inputs = {Tensor::from(std::span<const double>(inputs), {rows, width})},
                       .targets = {Tensor::from(std::span<const double>(targets), {rows, width})}});
  }
  return batches;
}

namespace {

/// Notes the squares of each gradient after each backward, as products do; what changes a gradient later has
/// to drop the note.
std::vector<HookHandle> note_squares(const ParameterList& list) {
  std::vector<HookHandle> hooks;
  for (const NamedParameter& parameter : list)
    if (parameter.requires_grad() && !parameter.shard)
      hooks.push_back(parameter.variable.register_post_accumulate_grad_hook([](const Variable& of) {
        const Tensor gradient = of.grad().value(), copy = gradient.clone();
        gradient.note_squares(ops::power_sums({&copy, 1}, 2.0).item());
      }));
  return hooks;
}

}  // namespace

std::vector<std::string> compare_steps(dist::World& world, const dist::PipelineOptions& options,
                                       const MakeModel& make, const std::vector<dist::MicroBatch>& batches,
                                       const ComparisonOptions& comparison) {
  std::vector<std::string> problems;
  const StagedModel whole = make(), stages = make();
  whole.module->to(comparison.dtype);
  stages.module->to(comparison.dtype);
  dist::Pipeline pipeline(*stages.module, stages.layers, options);
  const dist::Mesh& mesh = options.mesh;
  if (comparison.strategy) {
    dist::ShardOptions sharding{.mesh = mesh,
                                .strategy = *comparison.strategy,
                                .units = dist::every<nn::Linear>(),
                                .precision = comparison.precision};
    if (comparison.change) comparison.change(sharding);
    pipeline.shard(std::move(sharding));
  }
  nn::materialize(*whole.module, cpu(), seed);
  nn::materialize(*stages.module, cpu(), seed);
  const auto count = std::ssize(batches) / (world.size() / mesh.size("pipeline"));
  const int copy = mesh.index("replica") * mesh.size("shard") + mesh.index("shard");
  const std::vector<dist::MicroBatch> own(batches.begin() + count * copy,
                                          batches.begin() + count * (copy + 1));
  const ParameterList list = pipeline.parameters();
  list.reducer()->take_squares(list, count);
  std::vector<HookHandle> hooks = note_squares(list);
  double loss = 0;
  for (int step = 0; step < comparison.steps; ++step) {
    if (comparison.before_step) comparison.before_step(*stages.module, step);
    loss = pipeline.train_step(own, comparison.scale);
  }
  list.reducer()->take_squares(list, 0);
  for (HookHandle& hook : hooks) hook.remove();
  const double expected = train_one_device(whole, options, batches, comparison);
  if (!(std::abs(loss - expected) <= comparison.tolerance))
    problems.push_back(text("loss ", loss, ", on one device ", expected));
  compare_gradients(problems, *stages.module, *whole.module, comparison.tolerance);
  const double norm = optim::grad_norm(list).item(),
               expected_norm = optim::grad_norm(whole.module->parameters()).item();
  if (!(std::abs(norm - expected_norm) <= comparison.tolerance * std::max(1.0, expected_norm)))
    problems.push_back(text("norm ", norm, ", on one device ", expected_norm));
  const double validation = pipeline.evaluate(own);
  if (!(std::abs(validation - expected) <= comparison.tolerance))
    problems.push_back(text("validation loss ", validation, ", on one device ", expected));
  for (std::string& problem : problems)
    problem = text(pipeline.schedule(static_cast<int>(count)).name, ", ", pipeline.boundaries().size() - 1,
                   " stages: ", problem);
  return problems;
}

std::vector<std::string> compare_schedules(dist::World& world, const MakeModel& make,
                                           const std::vector<dist::MicroBatch>& batches,
                                           const std::function<double(const std::vector<Tensor>&)>& weight) {
  using enum dist::ScheduleKind;
  std::vector<std::string> problems;
  std::vector<dist::ScheduleKind> kinds{one_f_one_b, zb_h1};
  if (world.size() == 2) kinds.insert(kinds.end(), {gpipe, interleaved, zb_v});
  for (const dist::ScheduleKind kind : kinds)
    for (const int64_t interval : {0, 1}) {
      const dist::PipelineOptions options{.mesh = dist::pipeline_mesh(world, world.size()),
                                          .schedule = kind,
                                          .partition = dist::parse_partition_method("uniform"),
                                          .checkpointing = {.interval = interval},
                                          .weight = weight};
      for (const std::string& problem : compare_steps(world, options, make, batches))
        problems.push_back(text(interval > 0 ? "checkpointed, " : "", problem));
    }
  return problems;
}

}  // namespace tessera::test
