#include "autograd/recompute/checkpoint.h"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "autograd/autocast/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/recompute/first_run.h"
#include "autograd/record.h"
#include "tensor/batched/batched.h"
#include "tensor/random/random_context.h"

namespace tessera {
namespace {

constinit thread_local const SavingPolicy* inputs_policy = nullptr;

/// Thrown to end a rerun once all values that backward needs are saved again.
struct RerunComplete {};

/// One checkpointed call: what a rerun needs and, after the rerun, the values that its operations saved.
class Recomputation {
 public:
  Recomputation(std::string name, Segment segment, const std::vector<Variable>& inputs,
                const CheckpointOptions& options)
      : name_(std::move(name)), segment_(std::move(segment)), first_run_(options.keep) {
    // Inputs are saved like those of an operation: the policy of an enclosing segment applies.
    std::optional<SavingPolicyScope> scope;
    if (inputs_policy && *inputs_policy && !current_first_run()) scope.emplace(*inputs_policy);
    for (const Variable& input : inputs) {
      inputs_.emplace_back("checkpoint", SavedItem(input), std::span<const Tensor>{});
      samples_.push_back(input.defined() ? input.impl()->samples : SampleLayout());
    }
  }

  /// Notes a saved value's operation, shape and dtype in the first run; returns its index.
  size_t declare(const char* op, const Tensor& value) {
    expected_.push_back({op, {value.shape(), value.dtype()}});
    return expected_.size() - 1;
  }

  FirstRun& first_run() { return first_run_; }

  Tensor value(size_t index) {
    if (index >= values_.size() || !values_[index].defined()) rerun();
    require<AutogradError>(values_[index].defined(), "checkpoint '", name_, "': the rerun saved ",
                           saved_again_, " values, the first run saved ", expected_.size());
    return values_[index];
  }

  void release(size_t index) {
    if (index < values_.size()) values_[index] = Tensor();
    if (++released_ < expected_.size()) return;
    inputs_.clear();
    first_run_.release();
  }

  /// Drops a value after its use; another rerun computes it again.
  void drop(size_t index) {
    if (index < values_.size()) values_[index] = Tensor();
    for (SavedValue& input : inputs_) input.drop_produced();
  }

 private:
  void rerun() {
    std::vector<Variable> inputs;
    GradMode record(true);
    RandomContextScope first_run_context(context_);
    const AutocastScope first_run_autocast(autocast_);
    for (const SavedValue& input : inputs_) {
      inputs.push_back(input.variable("checkpoint", nullptr));
      const SampleLayout& samples = samples_[inputs.size() - 1];
      if (inputs.back().defined() && inputs.back().impl()->samples != samples)
        inputs.back().impl()->samples = samples;  // never a parameter's, which threads share
    }
    values_.assign(expected_.size(), Tensor());
    saved_again_ = 0;
    first_run_.begin_rerun();
    SavingPolicyScope scope([this](const char* op, const Tensor& value) { return store_next(op, value); },
                            &first_run_);
    try {
      segment_(inputs);
    } catch (const RerunComplete&) {
    }
  }

  std::shared_ptr<ValueSource> store_next(const char* op, const Tensor& value) {
    require<AutogradError>(saved_again_ < expected_.size(), "checkpoint '", name_,
                           "': the rerun saves more than the ", expected_.size(),
                           " values of the first run ('", op, "' saves ", describe(value), ")");
    const auto& [first_op, first] = expected_[saved_again_];
    require<AutogradError>(
        std::strcmp(op, first_op) == 0 && value.shape() == first.shape && value.dtype() == first.dtype,
        "checkpoint '", name_, "': in the rerun '", op, "' saves value ", saved_again_, ", ", describe(value),
        ", where in the first run '", first_op, "' saved ", first.shape, " ", first.dtype);
    values_[saved_again_++] = value;
    if (saved_again_ == expected_.size()) throw RerunComplete();
    return std::make_shared<EmptyValue>();
  }

  /// Saved in the graph of a rerun, through which no backward runs.
  struct EmptyValue : ValueSource {
    Tensor produce() override { return {}; }
  };

  /// What the first run saved.
  struct FirstValue {
    const char* op;  // a node's name, a string literal
    OutputInfo info;
  };

  std::string name_;
  RandomContext context_ = random_context();  // as it was when the segment began
  DType autocast_ = autocast_dtype();         // likewise
  Segment segment_;
  FirstRun first_run_;
  std::vector<SavedValue> inputs_;
  std::vector<SampleLayout> samples_;  // of the inputs
  std::vector<FirstValue> expected_;
  std::vector<Tensor> values_;
  size_t saved_again_ = 0;
  size_t released_ = 0;
};

/// The source of a saved value of a checkpointed call: its index in the Recomputation.
class SegmentValue final : public ValueSource {
 public:
  SegmentValue(std::shared_ptr<Recomputation> recomputation, size_t index)
      : recomputation_(std::move(recomputation)), index_(index) {}
  Tensor produce() override { return recomputation_->value(index_); }
  void release() override { recomputation_->release(index_); }
  void drop_produced() override { recomputation_->drop(index_); }

 private:
  std::shared_ptr<Recomputation> recomputation_;
  size_t index_;
};

}  // namespace

CheckpointInputsScope::CheckpointInputsScope(SavingPolicy policy)
    : policy_(std::move(policy)), outer_(std::exchange(inputs_policy, &policy_)) {}

CheckpointInputsScope::~CheckpointInputsScope() {
  inputs_policy = outer_;
}

std::vector<Variable> checkpoint_segment(const std::string& name, Segment segment,
                                         std::vector<Variable> inputs, const CheckpointOptions& options) {
  if (!grad_mode()) return segment(inputs);
  if (batched::current_samples() > 0) throw_no_batching_rule("checkpoint");
  const auto recomputation = std::make_shared<Recomputation>(name, segment, inputs, options);
  SavingPolicyScope scope(
      [&recomputation](const char* op, const Tensor& value) -> std::shared_ptr<ValueSource> {
        return std::make_shared<SegmentValue>(recomputation, recomputation->declare(op, value));
      },
      &recomputation->first_run());
  std::vector<Variable> outputs = segment(inputs);
  recomputation->first_run().require_names_known(name);
  return outputs;
}

}  // namespace tessera
