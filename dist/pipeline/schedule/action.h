#pragma once  // not in tessera.h

#include <string>
#include <string_view>

namespace tessera::dist {

/// What a rank of a pipeline does in one cell of a schedule.
enum class ActionKind {
  forward,          ///< F: the forward of a micro-batch through a stage
  backward,         ///< B: its whole backward, gradients of inputs and of weights
  backward_input,   ///< I: the gradients of the stage's inputs alone, which the stage before waits for
  backward_weight,  ///< W: the gradients of the stage's weights alone, which no other stage waits for
  send_forward,     ///< SEND_F: sends the stage's output to the next stage
  recv_forward,     ///< RECV_F: receives the stage's input from the stage before
  send_backward,    ///< SEND_B: sends the gradient of the stage's input to the stage before
  recv_backward,    ///< RECV_B: receives the gradient of the stage's output from the next stage
  unshard,          ///< UNSHARD: gathers the parameters of a stage, of all micro-batches
  reshard,          ///< RESHARD: frees what UNSHARD gathered
  reduce_grad,      ///< REDUCE_GRAD: reduces the gradients of a stage over its replicas and shards
};

/// "F", "B", "I", "W", "SEND_F", ..., "REDUCE_GRAD": the names in cells.
std::string_view name_of(ActionKind kind);
/// Whether it computes: F, B, I or W.
bool is_compute(ActionKind kind);
/// Whether it sends or receives.
bool is_communication(ActionKind kind);
/// Whether it is of one micro-batch; UNSHARD, RESHARD and REDUCE_GRAD are of a stage.
bool has_micro_batch(ActionKind kind);

/// An action of a stage, on one micro-batch where the kind has one.
struct PipelineAction {
  ActionKind kind = ActionKind::forward;  ///< what is done
  int stage = 0;                          ///< by which stage of the model; the first is 0
  int micro_batch = -1;                   ///< on which micro-batch; -1 for kinds without one

  /// Whether kind, stage and micro-batch are equal.
  bool operator==(const PipelineAction&) const = default;
};

/// A cell as torch.distributed.pipelining writes it: stage, name, micro-batch: "0F3", "2SEND_B1", "1UNSHARD".
std::string to_string(const PipelineAction& action);
/// Reads such a cell. Throws ConfigError with the cell for anything else.
PipelineAction parse_action(std::string_view cell);

}  // namespace tessera::dist
