#include "tests/dist/pipeline/run/pipeline_matrix.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "autograd/grad_mode.h"
#include "dist/comm/interface/fault_injection.h"
#include "dist/pipeline/simulation/check.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/clip.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"

namespace tessera::test {
namespace {

constexpr uint64_t seed = 7;
constexpr int64_t vocabulary = 11, longest = 6, no_target = -100;
const models::GptOptions small_gpt{.vocabulary = vocabulary,
                                   .block_size = longest,
                                   .layers = 6,
                                   .heads = 2,
                                   .width = 8,
                                   .dropout = 0.2,
                                   .bias = true};

/// What a rank holds of a tensor: all of it, or a shard.
struct Part {
  int64_t first = 0;
  Tensor values = {};  // one-dimensional; undefined: no gradient
};
/// What a step computed on a rank.
struct Step {
  double loss = 0, validation_loss = 0, norm = 0;
  std::map<std::string, Part> gradients;
};

double valid_targets(const std::vector<Tensor>& targets) {
  double count = 0;
  const int64_t* values = targets.at(0).data<int64_t>();
  for (int64_t i = 0; i < targets[0].numel(); ++i) count += values[i] != no_target;
  return count;
}

std::map<std::string, Part> gradients_of(const nn::Module& model) {
  std::map<std::string, Part> gradients;
  for (const NamedParameter& parameter : model.parameters()) {
    const Variable gradient = parameter.variable.grad();
    Part& part = gradients[parameter.name];
    part.first = parameter.shard ? parameter.shard->first : 0;
    if (gradient.defined()) part.values = gradient.value().clone().view({-1});
  }
  return gradients;
}

/// The elements of a whole tensor that a part of `numel` elements has.
Tensor part_of(const Tensor& whole, int64_t first, int64_t numel) {
  return whole.contiguous().view({-1}).narrow(0, first, numel);
}

/// The step on one device, micro-batch by micro-batch.
Step step_of_one_device(models::Gpt& gpt, const std::vector<dist::MicroBatch>& batches) {
  Step step;
  double total = 0;
  for (const dist::MicroBatch& batch : batches) total += valid_targets(batch.targets);
  for (const dist::MicroBatch& batch : batches) {
    const double share = valid_targets(batch.targets) / total;
    begin_random_step(seed, 3, batch.samples);
    const Variable loss = gpt.loss(batch.inputs[0], batch.targets[0]);
    step.loss += share * loss.value().item();
    loss.backward(Variable(ops::full({}, share, f64)));
    NoGrad no_grad;
    gpt.eval();
    step.validation_loss += share * gpt.loss(batch.inputs[0], batch.targets[0]).value().item();
    gpt.train();
  }
  step.gradients = gradients_of(gpt);
  step.norm = optim::grad_norm(gpt.parameters()).item();
  gpt.zero_grad();
  return step;
}

double difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  const double *x = a.data<double>(), *y = b.data<double>();
  for (int64_t i = 0; i < a.numel(); ++i)
    largest = std::max(largest, std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i])));
  return largest;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.shape() != b.shape() || a.numel() == 0) return a.shape() == b.shape();
  return std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0;
}

/// Sleeps at every 20th call or so, up to a millisecond, while it is on.
class RandomDelay {
 public:
  explicit RandomDelay(int seed) : engine_(static_cast<uint32_t>(seed)) {}
  void turn(bool on) { is_on_ = on; }
  void operator()() {
    if (is_on_ && engine_() % 20 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(engine_() % 1000));
  }

 private:
  std::mt19937 engine_;
  bool is_on_ = false;
};

/// A pipeline's model beside the same one on one device.
class Comparison {
 public:
  Comparison(dist::World& world, const dist::PipelineOptions& options,
             const std::optional<dist::Strategy>& strategy)
      : world_(world),
        mesh_(options.mesh),
        delay_(world.rank()),
        pipeline_(gpt_, gpt_.to(f64).as<models::Gpt>()->to_layered_model(), options) {
    if (strategy)
      pipeline_.shard({.mesh = mesh_, .strategy = *strategy, .units = dist::every<models::Block>()});
    whole_.to(f64);
    nn::materialize(whole_, cpu(), seed);
    nn::materialize(gpt_, cpu(), seed);
    // Before and after each module, in both directions.
    gpt_.for_each([this](nn::Module& module) {
      module.register_forward_pre_hook([this](nn::Module&, const nn::CallVariables&) { delay_(); });
      module.register_full_backward_pre_hook([this](nn::Module&, std::vector<Variable>&) { delay_(); });
    });
  }

  std::vector<std::string> run() {
    const dist::CommHookScope in_messages([this](dist::CommPoint, const dist::CallHeader&) { delay_(); });
    compare_values();
    for (const int count : {1, 2, 3, 4, 8}) {
      place_ = text(pipeline_.schedule(count).name, ", ", mesh_.size("pipeline"), " of ", world_.size(),
                    " ranks, ", count, " micro-batches: ");
      const int copies = world_.size() / mesh_.size("pipeline");
      const std::vector<dist::MicroBatch> all = language_batches(count * copies);
      const int copy = mesh_.index("replica") * mesh_.size("shard") + mesh_.index("shard");
      const std::vector<dist::MicroBatch> batches(all.begin() + count * copy,
                                                  all.begin() + count * (copy + 1));
      const Step first = step(batches);
      delay_.turn(true);
      const Step again = step(batches);
      delay_.turn(false);
      compare(first, step_of_one_device(whole_, all));
      compare_bits(first, again);
      compare_results(batches);
      const auto limit = static_cast<size_t>(dist::peak_live_micro_batches(
          pipeline_.schedule(count))[static_cast<size_t>(mesh_.index("pipeline"))]);
      if (pipeline_.most_live() > limit)
        add("live micro-batches: expected at most ", limit, ", got ", pipeline_.most_live());
    }
    return problems_;
  }

 private:
  template <class... Parts>
  void add(const Parts&... parts) {
    problems_.push_back(place_ + text(parts...));
  }

  Step step(const std::vector<dist::MicroBatch>& batches) {
    begin_random_step(seed, 3, {});
    Step done;
    done.loss = pipeline_.train_step(batches);
    done.gradients = gradients_of(gpt_);
    done.norm = optim::grad_norm(pipeline_.parameters()).item();
    gpt_.eval();
    done.validation_loss = pipeline_.evaluate(batches);
    gpt_.train();
    gpt_.zero_grad();
    return done;
  }

  /// Parameters of the stages have the values of the whole model; others take no memory.
  void compare_values() {
    std::map<std::string, Tensor> all;
    for (const NamedParameter& parameter : whole_.parameters())
      all[parameter.name] = parameter.variable.value();
    int64_t held = 0;
    for (const NamedParameter& parameter : gpt_.parameters()) {
      ++held;
      const Tensor values = parameter.variable.value().view({-1});
      const int64_t first = parameter.shard ? parameter.shard->first : 0;
      if (!same_bits(values, part_of(all.at(parameter.name), first, values.numel())))
        add("'", parameter.name, "' has other initial values");
    }
    if (mesh_.size("pipeline") > 1 && held >= std::ssize(all)) add("a rank holds all ", held, " parameters");
  }

  void compare(const Step& found, const Step& expected) {
    if (std::abs(found.loss - expected.loss) > 1e-12) add("loss ", found.loss, ", expected ", expected.loss);
    if (std::abs(found.validation_loss - expected.validation_loss) > 1e-12)
      add("validation loss ", found.validation_loss, ", expected ", expected.validation_loss);
    if (std::abs(found.norm - expected.norm) > 1e-12) add("norm ", found.norm, ", expected ", expected.norm);
    for (const auto& [name, gradient] : found.gradients) {
      const Tensor &whole = expected.gradients.at(name).values, &part = gradient.values;
      if (part.defined() != whole.defined()) {
        add("the gradient of '", name, part.defined() ? "' is there" : "' is missing");
      } else if (part.defined()) {
        const double most = difference(part, part_of(whole, gradient.first, part.numel()));
        if (most > 1e-12) add("the gradient of '", name, "' differs by ", most);
      }
    }
  }

  void compare_bits(const Step& a, const Step& b) {
    if (a.loss != b.loss) add("the run with delays has another loss");
    for (const auto& [name, gradient] : a.gradients)
      if (!same_bits(gradient.values, b.gradients.at(name).values))
        add("the run with delays has another gradient of '", name, "'");
  }

  /// Logits of the last stage.
  void compare_results(const std::vector<dist::MicroBatch>& batches) {
    gpt_.eval();
    whole_.eval();
    const std::vector<nn::LayerValues> results = pipeline_.forward(batches);
    if (results.size() != (pipeline_.is_last() ? batches.size() : 0)) add("other numbers of results");
    NoGrad no_grad;
    for (size_t m = 0; m < results.size(); ++m)
      if (difference(results[m].at(0).value(), whole_(batches[m].inputs[0]).value()) > 1e-12)
        add("the logits of micro-batch ", m, " differ");
    gpt_.train();
    whole_.train();
  }

  dist::World& world_;
  dist::Mesh mesh_;
  RandomDelay delay_;  // of this rank
  models::Gpt whole_{small_gpt}, gpt_{small_gpt};
  dist::Pipeline pipeline_;
  std::string place_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<dist::MicroBatch> language_batches(int count) {
  std::vector<dist::MicroBatch> batches;
  int64_t sample = 0;
  for (int m = 0; m < count; ++m) {
    const int64_t rows = 1 + m % 3, length = longest - m % 2;
    dist::MicroBatch batch;
    std::vector<int64_t> ids, targets;
    for (int64_t row = 0; row < rows; ++row) {
      batch.samples.push_back(sample++);
      for (int64_t t = 0; t < length; ++t) {
        ids.push_back((5 * row + 3 * t + 2 * m) % vocabulary);
        targets.push_back((row + t) % 4 == 3 ? no_target : (7 * row + 2 * t + m) % vocabulary);
      }
    }
    batch.inputs = {Tensor::from(std::span<const int64_t>(ids), {rows, length})};
    batch.targets = {Tensor::from(std::span<const int64_t>(targets), {rows, length})};
    batches.push_back(std::move(batch));
  }
  return batches;
}

std::vector<std::string> check_pipeline(dist::World& world, const dist::PipelineOptions& options,
                                        const std::optional<dist::Strategy>& strategy) {
  dist::PipelineOptions weighted = options;
  weighted.weight = valid_targets;
  return Comparison(world, weighted, strategy).run();
}

std::vector<std::string> check_sharded_stages(dist::World& world) {
  using enum dist::Strategy;
  std::vector<std::string> problems;
  const auto check = [&](const dist::Mesh& mesh, std::initializer_list<dist::Strategy> strategies) {
    for (const dist::Strategy strategy : strategies)
      for (const dist::ScheduleKind kind :
           {dist::ScheduleKind::one_f_one_b, dist::ScheduleKind::interleaved, dist::ScheduleKind::zb_h1})
        for (const std::string& problem : check_pipeline(world, {.mesh = mesh, .schedule = kind}, strategy))
          problems.push_back(text(dist::name_of(strategy), ", ", problem));
  };
  check(dist::pipeline_mesh(world, 2), {no_shard, shard_optim, shard_grad_op, full_shard});
  if (world.size() == 8)
    check(dist::Mesh(world, {{"pipeline", 2}, {"replica", 2}, {"shard", 2}}),
          {no_shard, hybrid_shard, hybrid_shard_zero2});
  return problems;
}

std::vector<std::string> check_all_schedules(dist::World& world) {
  std::vector<std::string> problems;
  const dist::Mesh mesh = dist::pipeline_mesh(world, world.size());
  for (const dist::ScheduleKind kind : dist::schedule_kinds)
    for (std::string& problem : check_pipeline(world, {.mesh = mesh, .schedule = kind}))
      problems.push_back(std::move(problem));
  return problems;
}

}  // namespace tessera::test
