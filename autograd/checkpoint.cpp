#include "autograd/checkpoint.h"

#include <memory>

#include "autograd/grad_mode.h"
#include "autograd/kept_outputs.h"
#include "autograd/record.h"
#include "autograd/segment_state.h"
#include "tensor/random/random_context.h"

namespace tessera {
namespace {

/// Leaves a rerun once everything that backward needs has been saved again.
struct RerunComplete {};

/// One checkpointed call: what it takes to run it again, and, after that, the values its operations had
/// saved.
class Recomputation : public std::enable_shared_from_this<Recomputation> {
 public:
  Recomputation(std::string name, Segment segment, const std::vector<Variable>& inputs,
                const CheckpointOptions& options)
      : name_(std::move(name)),
        segment_(std::move(segment)),
        keeps_(!options.keep.empty()),
        kept_(options.keep) {
    // Inputs are saved like any operation's: an enclosing segment's hook may pack them.
    for (const Variable& input : inputs) {
      inputs_.emplace_back("checkpoint", SavedItem(input), std::span<const Tensor>{});
      samples_.push_back(input.defined() ? input.impl()->samples : SampleLayout());
    }
  }

  /// Notes in the first run what a saved value looks like; its place is its number.
  size_t declare(const Tensor& value) {
    expected_.push_back({value.shape(), value.dtype()});
    return expected_.size() - 1;
  }

  /// What the segment's operations ask for results that are kept.
  KeptOutputs* kept() { return keeps_ ? &kept_ : nullptr; }
  const KeptOutputs& kept_outputs() const { return kept_; }
  /// What its first run reads beside its inputs.
  SegmentState& state() { return state_; }

  Tensor value(size_t index) {
    if (index >= values_.size() || !values_[index].defined()) rerun();
    require<AutogradError>(values_[index].defined(), "checkpoint '", name_, "': running it again saved ",
                           saved_again_, " values, the first run saved ", expected_.size());
    return values_[index];
  }

  void release(size_t index) {
    if (index < values_.size()) values_[index] = Tensor();
    if (++released_ < expected_.size()) return;
    inputs_.clear();
    kept_.release();
    state_.release();
  }

  /// The value was used; running again gives it once more.
  void drop(size_t index) {
    if (index < values_.size()) values_[index] = Tensor();
    for (SavedValue& input : inputs_) input.drop_unpacked();
  }

 private:
  void rerun() {
    std::vector<Variable> inputs;
    GradMode record(true);
    RandomContextScope same_numbers(context_);
    for (const SavedValue& input : inputs_) {
      inputs.push_back(input.variable("checkpoint", nullptr));
      const SampleLayout& samples = samples_[inputs.size() - 1];
      if (inputs.back().defined() && inputs.back().impl()->samples != samples)
        inputs.back().impl()->samples = samples;  // a parameter, which threads share, never carries a note
    }
    values_.assign(expected_.size(), Tensor());
    saved_again_ = 0;
    SavedValueHooks hooks([this](const char* op, const Tensor& value) { return keep(op, value); });
    kept_.begin_rerun();
    KeptOutputsScope kept_results(kept());
    state_.begin_rerun();
    SegmentStateScope same_state(state_);
    try {
      segment_(inputs);
    } catch (const RerunComplete&) {
    }
  }

  std::shared_ptr<Packed> keep(const char* op, const Tensor& value) {
    require<AutogradError>(saved_again_ < expected_.size(), "checkpoint '", name_,
                           "': running it again saves more than the ", expected_.size(),
                           " values of the first run ('", op, "' saves ", describe(value), ")");
    const OutputInfo& first = expected_[saved_again_];
    require<AutogradError>(value.shape() == first.shape && value.dtype() == first.dtype, "checkpoint '",
                           name_, "': running it again, '", op, "' saves ", describe(value),
                           " where the first run saved ", first.shape, " ", first.dtype);
    values_[saved_again_++] = value;
    if (saved_again_ == expected_.size()) throw RerunComplete();
    return std::make_shared<Nothing>();
  }

  /// Stands in for what a rerun's own graph would save: that graph is never run backward.
  struct Nothing : Packed {
    Tensor unpack() override { return {}; }
  };

  std::string name_;
  RandomContext context_ = random_context();  // as it was when the segment began
  Segment segment_;
  bool keeps_;
  KeptOutputs kept_;
  SegmentState state_;
  std::vector<SavedValue> inputs_;
  std::vector<SampleLayout> samples_;  // where the inputs hold the samples
  std::vector<OutputInfo> expected_;
  std::vector<Tensor> values_;
  size_t saved_again_ = 0;
  size_t released_ = 0;
};

/// What a saved value of a checkpointed call is packed into: its number.
struct Recomputed : Packed {
  std::shared_ptr<Recomputation> source;
  size_t index;
  Recomputed(std::shared_ptr<Recomputation> recomputation, size_t number)
      : source(std::move(recomputation)), index(number) {}
  Tensor unpack() override { return source->value(index); }
  void release() override { source->release(index); }
  void drop_unpacked() override { source->drop(index); }
};

}  // namespace

std::vector<Variable> checkpoint_segment(const std::string& name, Segment segment,
                                         std::vector<Variable> inputs, const CheckpointOptions& options) {
  if (!grad_mode()) return segment(inputs);
  const auto recomputation = std::make_shared<Recomputation>(name, segment, inputs, options);
  KeptOutputsScope kept_results(recomputation->kept());
  SegmentStateScope state(recomputation->state());
  SavedValueHooks hooks([&recomputation](const char*, const Tensor& value) -> std::shared_ptr<Packed> {
    return std::make_shared<Recomputed>(recomputation, recomputation->declare(value));
  });
  std::vector<Variable> outputs = segment(inputs);
  recomputation->kept_outputs().require_names_known(name);
  return outputs;
}

}  // namespace tessera
