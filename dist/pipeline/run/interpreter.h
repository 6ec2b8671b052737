#pragma once  // internal

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "dist/pipeline/run/pipeline.h"
#include "dist/pipeline/run/stage.h"
#include "dist/pipeline/run/stage_random.h"
#include "dist/pipeline/run/value_messages.h"
#include "dist/pipeline/schedule/action.h"

namespace tessera::dist {

/// What a run of a rank's actions needs.
struct RunInput {
  Communicator& ranks;                                 ///< of the pipeline
  std::span<const std::vector<nn::LayerSpec>> stages;  ///< the layers of each stage; others' may be empty
  std::span<const int> stage_ranks;                    ///< the rank of each stage
  std::span<const MicroBatch> micro_batches;           ///< of the step
  const StageRandom& random;                           ///< of the model's stages
  bool records = true;                                 ///< for backward; else forwards alone
  /// From the last layer's values of a micro-batch to what the last stage returns.
  std::function<nn::LayerValues(int micro_batch, const nn::LayerValues&)> finish = {};
  /// The gradient of what the last stage returned.
  std::function<nn::LayerValues(int micro_batch)> seed = {};
  /// The inputs of the first stage.
  std::function<nn::LayerValues(const MicroBatch&)> first_inputs = {};
  /// Runs UNSHARD, RESHARD and REDUCE_GRAD, and is called before each action; null where nothing is sharded.
  std::function<void(const PipelineAction&)> sharding = {};
  /// Called with what the last stage returned for a micro-batch.
  std::function<void(int micro_batch, const nn::LayerValues&)> result = {};
};

/// Runs the actions of a rank in order: any table, training and forward alone. An action that computes takes
/// what the stage before or after it computed, from this rank or from a message; what goes to another rank
/// waits for its SEND. Receives are posted where the table has them, which is ahead of their use; sends are
/// waited for at the end.
class Interpreter {
 public:
  /// `input` must outlive it.
  explicit Interpreter(const RunInput& input);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Runs them, and waits for the messages that were sent. Throws what layers and communicator throw; an
  /// error of a layer names the action.
  void run(std::span<const PipelineAction> actions);
  /// The largest number of micro-batches between forward and backward, over this rank's stages.
  size_t most_live() const { return most_live_; }
  /// Seconds of the run, and those of them in which actions computed.
  /// @{
  double seconds() const { return seconds_; }
  double busy_seconds() const { return busy_seconds_; }
  /// @}

 private:
  /// A value between two stages: what a stage computed for a micro-batch, forward or backward.
  struct ValueKey {
    bool is_backward;
    int stage, micro_batch;  // that computed it
    auto operator<=>(const ValueKey&) const = default;
  };

  void run(const PipelineAction& action);
  void publish_activity(std::string_view what);
  void begin_span();
  void end_span(const PipelineAction& action);
  size_t live() const;  // micro-batches between forward and backward
  void run_forward(const PipelineAction& action);
  void run_backward(const PipelineAction& action);
  void pass_on(const ValueKey& value, int reader, PassedValues passed);
  PassedValues take(const ValueKey& value, bool with_gradients);
  void send(const ValueKey& value, int reader);
  void receive(const ValueKey& value);
  void wait_for_header(const IncomingValues& message);
  void advance();
  PipelineStage& stage(int index) { return stages_.at(index); }
  bool is_here(int stage) const;
  MessagePlace place_of(const ValueKey& value, int other_stage) const;
  int last_stage() const { return static_cast<int>(std::ssize(input_.stage_ranks)) - 1; }

  const RunInput& input_;
  std::map<int, PipelineStage> stages_;           // of this rank, by number
  std::map<ValueKey, PassedValues> computed_;     // here, for a stage of this rank or for a SEND
  std::map<ValueKey, IncomingValues> incoming_;   // posted and not yet taken
  std::map<int, std::deque<ValueKey>> expected_;  // by the rank that sends: those without a header, in order
  std::list<OutgoingValues> outgoing_;            // on their way
  size_t most_live_ = 0;
  double seconds_ = 0, busy_seconds_ = 0;
  int64_t began_ = 0;  // of the action, in nanoseconds
};

}  // namespace tessera::dist
