#include <doctest/doctest.h>

#include "optim/rules/adam.h"
#include "optim/rules/lamb.h"
#include "optim/rules/sgd.h"
#include "optim/schedules/decay.h"
#include "tests/optim/golden_runs.h"

using namespace tessera;
using namespace tessera::test;

namespace {

ParameterList list(const std::string& name, double value = 1.0) {
  return ParameterList({{name, Variable::parameter(Tensor::from({value, value}))}});
}

void set_gradient(const ParameterList& parameters, double value) {
  parameters[0].variable.set_grad(Variable(Tensor::from({value, -value})));
}

/// An optimizer with group p, to which q is added after two steps, against q in an optimizer of its own.
template <class Optimizer>
void check_added_group(const typename Optimizer::Options& options, const typename Optimizer::Options& added) {
  const ParameterList p = list("p"), q = list("q"), alone = list("q");
  Optimizer optimizer(p, options), own(alone, added);
  for (int step = 0; step < 5; ++step) {
    if (step == 2) optimizer.add_param_group({q, added});
    set_gradient(p, 0.5 + step);
    set_gradient(q, 0.25 * (step + 1));
    set_gradient(alone, 0.25 * (step + 1));
    optimizer.step();
    if (step >= 2) own.step();
  }
  CHECK(same_bits(q[0].variable.value(), alone[0].variable.value()));
  const optim::OptimizerState state = optimizer.state();
  CHECK(state.groups.size() == 2);
  for (const NamedTensor& entry : own.state().tensors)
    for (const NamedTensor& other : state.tensors)
      if (other.name == entry.name) CHECK(same_bits(other.tensor, entry.tensor));
  CHECK(state.tensors.back().name == "step/q");
  CHECK(state.tensors.back().tensor.item_i64() == 3);
  Optimizer resumed({{p, options}, {q, added}});
  resumed.load_state(state);
  CHECK(same_bits(resumed.state().tensors.front().tensor, state.tensors.front().tensor));
}

}  // namespace

TEST_CASE("add_param_group: parameters added between steps are updated with options and state of their own") {
  check_added_group<optim::AdamW>({.lr = 0.1}, {.lr = 0.05, .weight_decay = 0.0, .amsgrad = true});
  check_added_group<optim::SGD>({.lr = 0.1}, {.lr = 0.05, .momentum = 0.9});
  check_added_group<optim::Lamb>({.lr = 0.1}, {.lr = 0.05, .weight_decay = 0.1});
}

TEST_CASE("add_param_group: state that exists stays where it is, and later steps allocate nothing") {
  const ParameterList p = list("p"), q = list("q");
  const auto account = make_intrusive<MemoryAccount>();
  optim::Adam adam(p);
  set_gradient(p, 1.0);
  adam.step();
  set_gradient(q, 1.0);
  AccountScope scope(account);
  const void* const before = adam.state().tensors[0].tensor.raw_data();
  adam.add_param_group({q, {}});
  adam.step();
  CHECK(adam.state().tensors[0].tensor.raw_data() == before);
  CHECK(account->count(MemoryCategory::optimizer_state).current == 2 * 16 * 8 + 8);
  const int64_t allocations = account->total().allocations;
  adam.step();
  CHECK(account->total().allocations == allocations);
}

TEST_CASE("add_param_group: what does not fit is refused by name, and nothing is added") {
  const ParameterList p = list("p");
  optim::SGD sgd(p);
  CHECK_THROWS_WITH_AS(sgd.add_param_group({p, {}}), "SGD: parameter 'p' of group 1 is listed twice",
                       ValueError);
  ParameterList several = list("q");
  several.push_back({"p", Variable::parameter(Tensor::zeros({2}, f32))});
  CHECK_THROWS_WITH_AS(sgd.add_param_group({several, {}}), doctest::Contains("'p' of group 1: another"),
                       ValueError);
  CHECK_THROWS_AS(sgd.add_param_group({list("q"), {.lr = -1.0}}), ConfigError);
  CHECK_THROWS_AS(sgd.add_param_group({list("q"), {.momentum = -1.0}}), ConfigError);
  CHECK(sgd.group_count() == 1);
  CHECK(sgd.parameters().size() == 1);
  sgd.add_param_group({several.where([](const NamedParameter& q) { return q.name == "q"; }), {}});
  CHECK(sgd.parameters().size() == 2);
}

TEST_CASE("add_param_group: a schedule scales the added group's own rate") {
  optim::SGD sgd(list("p"), {.lr = 0.4});
  sgd.add_param_group({list("q"), {.lr = 0.1}});
  optim::Schedule schedule = optim::step_decay({.step_size = 1, .gamma = 0.5});
  schedule.advance();
  schedule.apply(sgd);
  CHECK(sgd.lr(0).item() == 0.2);
  CHECK(sgd.lr(1).item() == 0.05);
}
