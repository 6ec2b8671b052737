// One loop over a rank's actions.

#include "dist/pipeline/run/interpreter.h"

#include <algorithm>

#include "dist/comm/wait/rank_activity.h"
#include "dist/pipeline/run/action_error.h"
#include "tensor/error.h"
#include "tensor/profile/span.h"

namespace tessera::dist {

using enum ActionKind;

Interpreter::Interpreter(const RunInput& input) : input_(input) {
  for (int s = 0; s <= last_stage(); ++s) {
    if (!is_here(s)) continue;
    stages_.emplace(s, PipelineStage(s, input_.stages[static_cast<size_t>(s)]));
  }
}

Interpreter::~Interpreter() = default;

void Interpreter::run(std::span<const PipelineAction> actions) {
  const int64_t began = profile_clock();
  for (const PipelineAction& action : actions) {
    advance();
    begin_span();
    if (is_compute(action.kind)) publish_activity(place_text(action));
    try {
      run(action);
    } catch (const std::exception&) {
      rethrow_in(action, live());
    }
    end_span(action);
  }
  publish_activity("the end of a pipeline's step");
  for (OutgoingValues& message : outgoing_) message.wait();
  publish_activity("");
  outgoing_.clear();
  seconds_ += 1e-9 * static_cast<double>(profile_clock() - began);
}

/// Other ranks' errors name it where this rank is stuck or lost.
void Interpreter::publish_activity(std::string_view what) {
  if (auto* ranks = dynamic_cast<PublishesActivity*>(&input_.ranks)) ranks->publish_activity(what);
}

/// An action is counted without the time in which it waits for its inputs.
void Interpreter::begin_span() {
  began_ = profile_clock();
}

/// In a trace, the actions of training are a row of their own.
void Interpreter::end_span(const PipelineAction& action) {
  if (is_compute(action.kind)) busy_seconds_ += 1e-9 * static_cast<double>(profile_clock() - began_);
  if (!profiling() || !input_.records) return;
  record_span({.name = intern(to_string(action)).c_str(),
               .module = nullptr,
               .phase = nullptr,
               .stream = "pipeline",
               .begin = began_,
               .end = profile_clock(),
               .bytes = 0,
               .flops = 0,
               .number = -1,
               .kind = SpanKind::range,
               .nested = false});
}

void Interpreter::run(const PipelineAction& action) {
  const int s = action.stage, m = action.micro_batch;
  if (input_.sharding) input_.sharding(action);
  switch (action.kind) {
    case forward:
      return run_forward(action);
    case backward:
    case backward_input:
      return run_backward(action);
    case backward_weight:
      return stage(s).backward_weight(m);
    case send_forward:
      return send({false, s, m}, s + 1);
    case recv_forward:
      return receive({false, s - 1, m});
    case send_backward:
      return send({true, s, m}, s - 1);
    case recv_backward:
      return receive({true, s + 1, m});
    case unshard:
    case reshard:
    case reduce_grad:
      break;
  }
  require<ConfigError>(static_cast<bool>(input_.sharding), "the stages of this pipeline are not sharded");
}

void Interpreter::run_forward(const PipelineAction& action) {
  const int s = action.stage, m = action.micro_batch;
  const MicroBatch& batch = input_.micro_batches[static_cast<size_t>(m)];
  PassedValues inputs;
  if (s > 0)
    inputs = take({false, s - 1, m}, input_.records);
  else
    inputs.values = input_.first_inputs(batch);
  begin_span();
  RandomContext random = s > 0 ? input_.random.next(batch, inputs.random) : input_.random.first(batch);
  const bool is_last = s == last_stage();
  std::function<nn::LayerValues(const nn::LayerValues&)> finish;
  if (is_last && input_.finish)
    finish = [this, m](const nn::LayerValues& values) { return input_.finish(m, values); };
  nn::LayerValues outputs = input_.records ? stage(s).forward(m, std::move(inputs.values), random, finish)
                                           : stage(s).evaluate(inputs.values, random, finish);
  most_live_ = std::max(most_live_, live());
  if (!is_last) return pass_on({false, s, m}, s + 1, {std::move(outputs), input_.random.state_of(random)});
  if (input_.result) input_.result(m, outputs);
}

size_t Interpreter::live() const {
  size_t live = 0;
  for (const auto& [index, each] : stages_) live += each.live();
  return live;
}

void Interpreter::run_backward(const PipelineAction& action) {
  const int s = action.stage, m = action.micro_batch;
  nn::LayerValues gradients = s == last_stage() ? input_.seed(m) : take({true, s + 1, m}, false).values;
  begin_span();
  gradients = action.kind == backward ? stage(s).backward(m, std::move(gradients))
                                      : stage(s).backward_input(m, std::move(gradients));
  if (s > 0) pass_on({true, s, m}, s - 1, {std::move(gradients)});
}

/// Keeps values for a stage of this rank, which gets them as constants or as leaves of its own graph, or for
/// the SEND that follows.
void Interpreter::pass_on(const ValueKey& value, int reader, PassedValues passed) {
  if (is_here(reader))
    for (Variable& each : passed.values) {
      if (!each.defined()) continue;
      const SampleLayout layout = each.impl()->current().samples;
      each = Variable(each.value(), input_.records && !value.is_backward && each.requires_grad());
      each.impl()->samples = layout;
    }
  computed_.emplace(value, std::move(passed));
}

PassedValues Interpreter::take(const ValueKey& value, bool with_gradients) {
  if (const auto here = computed_.find(value); here != computed_.end()) {
    PassedValues passed = std::move(here->second);
    computed_.erase(here);
    return passed;
  }
  const auto message = incoming_.find(value);
  require<ConfigError>(message != incoming_.end(), "its input was neither computed here nor received");
  wait_for_header(message->second);
  PassedValues passed = message->second.take(with_gradients);
  incoming_.erase(message);
  return passed;
}

void Interpreter::send(const ValueKey& value, int reader) {
  const auto here = computed_.find(value);
  require<ConfigError>(here != computed_.end(), "what it sends was not computed");
  outgoing_.emplace_back(input_.ranks, place_of(value, reader), here->second);
  computed_.erase(here);
}

void Interpreter::receive(const ValueKey& value) {
  const auto [message, is_new] = incoming_.try_emplace(value, input_.ranks, place_of(value, value.stage));
  if (is_new) expected_[message->second.peer()].push_back(value);
}

/// In the order in which the other rank sends: it has room for some messages, and sends later ones when
/// earlier ones were received.
void Interpreter::wait_for_header(const IncomingValues& message) {
  std::deque<ValueKey>& expected = expected_[message.peer()];
  while (!message.has_header()) {
    incoming_.at(expected.front()).wait_for_header();
    expected.pop_front();
  }
}

/// Lets messages go on while this rank computes.
void Interpreter::advance() {
  for (auto& [peer, expected] : expected_)
    while (!expected.empty() && incoming_.at(expected.front()).advance()) expected.pop_front();
  outgoing_.remove_if([](const OutgoingValues& message) { return message.is_done(); });
}

bool Interpreter::is_here(int stage) const {
  return input_.stage_ranks[static_cast<size_t>(stage)] == input_.ranks.rank();
}

MessagePlace Interpreter::place_of(const ValueKey& value, int other_stage) const {
  const PipelineAction computes{value.is_backward ? backward : forward, value.stage, value.micro_batch};
  const auto micro_batches = static_cast<int>(std::ssize(input_.micro_batches));
  return {.peer = input_.stage_ranks[static_cast<size_t>(other_stage)],
          .tag = (2 * value.stage + (value.is_backward ? 1 : 0)) * micro_batches + value.micro_batch,
          .unit = to_string(computes)};
}

}  // namespace tessera::dist
