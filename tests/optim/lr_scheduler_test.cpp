#include "optim/schedules/lr_scheduler.h"

#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "optim/rules/sgd.h"
#include "optim/schedules/decay.h"
#include "tensor/functions.h"

using namespace tessera;

TEST_CASE("LR scheduler: sets the rates of its optimizer, step by step") {
  const Variable a(ones({2}), true), b(ones({2}), true);
  optim::SGD sgd({{{a}, {.lr = 1.0}}, {ParameterList{b}.prefixed("b"), {.lr = 0.5}}});
  optim::LRScheduler scheduler(sgd, optim::step_decay({.step_size = 2, .gamma = 0.1}));
  std::vector<std::vector<double>> rates;
  for (int step = 0; step < 4; ++step) {
    rates.push_back(scheduler.get_last_lr());
    scheduler.step();
  }
  CHECK(rates[0] == std::vector<double>{1.0, 0.5});
  CHECK(rates[1] == rates[0]);
  CHECK(rates[2][0] == doctest::Approx(0.1));
  CHECK(rates[3][1] == doctest::Approx(0.05));
  CHECK(scheduler.position() == 4);
  scheduler.set_position(0);
  CHECK(sgd.lr(1).item() == 0.5);
  CHECK_THROWS_AS(scheduler.set_position(-1), ValueError);
}

TEST_CASE("optimizers: Variables in braces, and integer rates") {
  const Variable w(ones({2}), true), b(ones({3}), true);
  optim::SGD sgd({w, b}, 1);
  CHECK(sgd.parameters().size() == 2);
  CHECK(sgd.parameters()[1].name == "1");
  (w.sum() * 2.0 + b.sum()).backward();
  CHECK(sgd.parameters()[0].grad().value().array_equal(full({2}, 2.0f)));
  sgd.step();
  CHECK(w.value().array_equal(full({2}, -1.0f)));
  const std::vector<Variable> list{w};
  CHECK(optim::SGD(list, 0.5).lr().item() == 0.5);
}
