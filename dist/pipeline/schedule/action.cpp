#include "dist/pipeline/schedule/action.h"

#include <array>
#include <charconv>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

struct KindRow {
  ActionKind kind;
  std::string_view name;
};

constexpr std::array kinds{
    KindRow{ActionKind::forward, "F"},
    KindRow{ActionKind::backward, "B"},
    KindRow{ActionKind::backward_input, "I"},
    KindRow{ActionKind::backward_weight, "W"},
    KindRow{ActionKind::send_forward, "SEND_F"},
    KindRow{ActionKind::recv_forward, "RECV_F"},
    KindRow{ActionKind::send_backward, "SEND_B"},
    KindRow{ActionKind::recv_backward, "RECV_B"},
    KindRow{ActionKind::unshard, "UNSHARD"},
    KindRow{ActionKind::reshard, "RESHARD"},
    KindRow{ActionKind::reduce_grad, "REDUCE_GRAD"},
};

/// Takes the digits at the front of `rest`; -1 where there are none, or too many for an int.
int take_index(std::string_view& rest) {
  int index = -1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
  if (error != std::errc() || index < 0 || (!rest.empty() && rest[0] == '-')) return -1;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return index;
}

}  // namespace

std::string_view name_of(ActionKind kind) {
  return kinds[static_cast<size_t>(kind)].name;
}

bool is_compute(ActionKind kind) {
  return kind <= ActionKind::backward_weight;
}

bool is_communication(ActionKind kind) {
  return kind >= ActionKind::send_forward && kind <= ActionKind::recv_backward;
}

bool has_micro_batch(ActionKind kind) {
  return kind < ActionKind::unshard;
}

std::string to_string(const PipelineAction& action) {
  std::string cell = std::to_string(action.stage) + std::string(name_of(action.kind));
  if (has_micro_batch(action.kind)) cell += std::to_string(action.micro_batch);
  return cell;
}

PipelineAction parse_action(std::string_view cell) {
  std::string_view rest = cell;
  PipelineAction action{.stage = take_index(rest)};
  const size_t length = std::min(rest.find_first_of("0123456789"), rest.size());
  const std::string_view name = rest.substr(0, length);
  rest.remove_prefix(length);
  for (const KindRow& row : kinds) {
    if (action.stage < 0 || row.name != name) continue;
    action.kind = row.kind;
    if (has_micro_batch(row.kind)) action.micro_batch = take_index(rest);
    if (rest.empty() && has_micro_batch(row.kind) == (action.micro_batch >= 0)) return action;
  }
  throw ConfigError(
      text("'", cell,
           "' is no action: expected a stage, F, B, I, W, SEND_F, RECV_F, SEND_B or RECV_B and a "
           "micro-batch, such as 0F3, or a stage and UNSHARD, RESHARD or REDUCE_GRAD"));
}

}  // namespace tessera::dist
