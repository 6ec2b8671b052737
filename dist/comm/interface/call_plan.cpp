#include "dist/comm/interface/call_plan.h"

#include "dist/comm/interface/communicator.h"

namespace tessera::dist {
namespace {

using enum MovedRange;

constexpr CallPhase copy_phases[] = {{.sent = full, .received = full}};
constexpr CallPhase all_gather_phases[] = {{.sent = full, .received = of_sender}};
constexpr CallPhase all_to_all_phases[] = {{.sent = of_receiver, .received = of_sender}};
constexpr CallPhase reduce_scatter_phases[] = {{.sent = of_receiver, .received = full, .combines = true}};
constexpr CallPhase small_all_reduce_phases[] = {{.sent = full, .received = full, .combines = true}};
constexpr CallPhase all_reduce_phases[] = {{.sent = of_receiver, .received = of_receiver, .combines = true},
                                           {.sent = of_sender, .received = of_sender}};

std::span<const CallPhase> phases_of(CallKind kind, bool is_small) {
  switch (kind) {
    case CallKind::all_gather:
    case CallKind::split:
      return all_gather_phases;
    case CallKind::all_to_all:
      return all_to_all_phases;
    case CallKind::reduce_scatter:
      return reduce_scatter_phases;
    case CallKind::all_reduce:
      if (is_small) return small_all_reduce_phases;
      return all_reduce_phases;
    case CallKind::broadcast:
    case CallKind::send:
    case CallKind::recv:
      return copy_phases;
    case CallKind::barrier:
      break;
  }
  return {};
}

/// 0 where a range begins at the end of the one before, and where there are headers alone.
int64_t stride_of(const Tensor& ranges) {
  return ranges.defined() && !ranges.is_contiguous() ? ranges.strides()[0] : 0;
}

/// The ranges of input and output; the full tensor has `n` elements.
void cut(CallPlan& plan, const CheckedCall& call, int64_t n, int ranks) {
  plan.input = plan.output = {.elements = n};
  switch (call.header.kind) {
    case CallKind::all_gather:
    case CallKind::split:
      plan.input.elements = plan.output.length = n / ranks;
      plan.output.stride = stride_of(call.output);
      break;
    case CallKind::reduce_scatter:
      plan.output.elements = plan.input.length = n / ranks;
      plan.input.stride = stride_of(call.input);
      break;
    case CallKind::all_reduce:
      if (plan.phases.size() > 1) plan.input = plan.output = aligned_ranges(n, ranks);
      break;
    case CallKind::all_to_all:
      plan.input.counts = call.input_counts;
      plan.output.counts = call.output_counts;
      break;
    default:
      break;
  }
}

}  // namespace

RankRanges aligned_ranges(int64_t elements, int ranks) {
  const int64_t step = ranks * range_alignment;
  return {.elements = elements, .length = (elements + step - 1) / step * range_alignment};
}

CallPlan plan_of(const CheckedCall& call, int rank, int ranks, int64_t small_bytes) {
  const CallHeader& header = call.header;
  CallPlan plan{.rank = rank, .phases = phases_of(header.kind, header.bytes <= small_bytes)};
  cut(plan, call, header.bytes / size_of(header.dtype), ranks);
  if (header.kind == CallKind::broadcast) plan.sender = header.root;
  if (is_message(header.kind)) {
    const bool sends = header.kind == CallKind::send;
    plan.sender = sends ? rank : call.peer;
    plan.receiver = sends ? call.peer : rank;
  }
  return plan;
}

}  // namespace tessera::dist
