#include "optim/grad_scaler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/functions/elementwise/binary.h"
#include "optim/clip.h"
#include "optim/rules/sgd.h"

using namespace tessera;

namespace {

/// One parameter of one element under SGD with rate 1, and a scaler.
struct Run {
  explicit Run(const optim::GradScalerOptions& options) : scaler(options), sgd(list(), {.lr = 1.0}) {}

  ParameterList list() {
    ParameterList all;
    all.push_back({"w", w});
    return all;
  }
  /// One step with this gradient of the unscaled loss. Returns whether it was taken.
  bool step(double gradient) {
    w.set_grad(Variable(Tensor::from({static_cast<float>(gradient * scaler.scale().item())})));
    return scaler.step(sgd);
  }
  /// One step per character, '+' (good) or '!' (overflow). Returns log2 of the scale after each.
  std::vector<int> run_steps(std::string_view kinds) {
    std::vector<int> powers;
    for (const char kind : kinds) {
      CHECK(step(kind == '+' ? 0.0 : INFINITY) == (kind == '+'));
      powers.push_back(std::ilogb(scaler.scale().item()));
    }
    return powers;
  }

  Variable w = Variable::parameter(Tensor::from({10.0f}));
  optim::GradScaler scaler;
  optim::SGD sgd;
};

using Powers = std::vector<int>;

}  // namespace

TEST_CASE("grad scaler: gradients are divided by the scale, overflowing steps are skipped") {
  Run run({.initial_scale_power = 4, .hysteresis = 1});
  CHECK(run.scaler.scale().item() == 16.0);
  CHECK(run.scaler.scale().dtype() == f32);
  CHECK(run.step(2.0));
  CHECK(run.w.value().item() == 8.0);
  CHECK(run.w.grad().item() == 2.0);
  CHECK_FALSE(run.step(NAN));
  CHECK(run.w.value().item() == 8.0);
  CHECK(to_string(*run.scaler.first_nonfinite()) == "'w' in step 1");
  CHECK(run.scaler.scale().item() == 8.0);
  CHECK(run.step(1.0));
  CHECK(run.w.value().item() == 7.0);
  CHECK_FALSE(run.scaler.first_nonfinite());
}

TEST_CASE("grad scaler: the window's last step doubles, an overflow restarts the window") {
  Run run({.initial_scale_power = 4, .loss_scale_window = 3, .hysteresis = 1});
  CHECK(run.run_steps("+++++++") == Powers{4, 4, 5, 5, 5, 6, 6});
  CHECK(run.run_steps("!++!+++") == Powers{5, 5, 5, 4, 4, 4, 5});
}

TEST_CASE("grad scaler: hysteresis counts overflows until a doubling resets the count") {
  Run run({.initial_scale_power = 8, .loss_scale_window = 3, .hysteresis = 3});
  // Two overflows are only counted, also with good steps between them; from the third on each one halves.
  CHECK(run.run_steps("!+!+!!") == Powers{8, 8, 8, 8, 7, 6});
  CHECK(run.run_steps("+++") == Powers{6, 6, 7});
  CHECK(run.run_steps("!!!") == Powers{7, 7, 6});
}

TEST_CASE("grad scaler: consecutive hysteresis resets the count in every good step") {
  Run run({.initial_scale_power = 8, .hysteresis = 2, .consecutive_hysteresis = true});
  CHECK(run.run_steps("!+!+!!+!!") == Powers{8, 8, 8, 8, 8, 7, 7, 7, 6});
}

TEST_CASE("grad scaler: an overflow at the minimum scale is an error that names the gradient") {
  Run run({.initial_scale_power = 2, .hysteresis = 1, .min_loss_scale = 2.0});
  CHECK(run.run_steps("!") == Powers{1});
  CHECK_THROWS_WITH_AS(run.step(INFINITY),
                       doctest::Contains("'w' in step 1 is not finite and the loss scale is at its minimum"),
                       NonFiniteError);
  Run uneven({.initial_scale_power = 2, .hysteresis = 1, .min_loss_scale = 3.0});
  uneven.step(INFINITY);
  CHECK(uneven.scaler.scale().item() == 3.0);
}

TEST_CASE("grad scaler: a static scale does not change, and overflowing steps are skipped") {
  Run run({.loss_scale = 64.0, .loss_scale_window = 1, .hysteresis = 1});
  CHECK(run.run_steps("+!!+++") == Powers{6, 6, 6, 6, 6, 6});
}

TEST_CASE("grad scaler: defaults are DeepSpeed's") {
  const optim::GradScalerOptions o;
  CHECK(optim::GradScaler(o).scale().item() == 65536.0);
  CHECK(o.loss_scale_window == 1000);
  CHECK(o.hysteresis == 2);
  CHECK_FALSE(o.consecutive_hysteresis);
  CHECK(o.min_loss_scale == 1.0);
}

TEST_CASE(
    "grad scaler: by default the scale doubles after 1000 good steps, and halves at the second overflow") {
  Run run({});
  Powers powers = run.run_steps(std::string(2000, '+'));
  CHECK(std::count(powers.begin(), powers.end(), 16) == 999);
  CHECK(std::count(powers.begin(), powers.end(), 17) == 1000);
  CHECK(powers.back() == 18);
  CHECK(run.run_steps("!!!") == Powers{18, 17, 16});
}

TEST_CASE("grad scaler: unscaling before clipping happens once") {
  Run run({.initial_scale_power = 10});
  run.w.set_grad(Variable(Tensor::from({4096.0f})));
  CHECK(run.scaler.unscale(run.list()));
  CHECK_THROWS_AS(run.scaler.unscale(run.list()), ValueError);
  CHECK(optim::clip_grad_norm(run.list(), 100.0).item() == 4.0);
  CHECK(run.scaler.step(run.sgd));
  CHECK(run.w.value().item() == 6.0);
}

TEST_CASE("grad scaler: a backward that starts with the scale, and leaves with equal gradients") {
  const Variable a = Variable::parameter(Tensor::scalar(1.0f)), b = Variable::parameter(Tensor::scalar(2.0f));
  ParameterList list;
  list.push_back({"a", a});
  list.push_back({"b", b});
  optim::SGD sgd(list, {.lr = 1.0});
  optim::GradScaler scaler({.initial_scale_power = 3});
  const Variable sum = a + b;
  (sum * sum).backward(scaler.scale());  // the derivative by each is 2 (a + b) = 6
  CHECK(a.grad().item() == 48.0);
  CHECK(scaler.unscale(list));
  // If both gradients shared a storage, it would be unscaled and clipped twice.
  CHECK(optim::clip_grad_norm(list, 0.5 * std::sqrt(72.0)).item() == doctest::Approx(std::sqrt(72.0)));
  CHECK(scaler.step(sgd));
  CHECK(a.value().item() == doctest::Approx(-2.0));
  CHECK(b.value().item() == doctest::Approx(-1.0));
}

TEST_CASE("grad scaler: the first non-finite gradient is named, in the order of the parameters") {
  ParameterList list;
  for (const char* name : {"a", "b", "c", "d"}) {
    const Variable p = Variable::parameter(Tensor::zeros({100000}, f32));
    p.set_grad(Variable(Tensor::zeros({100000}, f32)));
    list.push_back({name, p});
  }
  list[0].variable.set_grad({});
  list[3].variable.grad().value().data<float>()[0] = NAN;
  list[1].variable.grad().value().data<float>()[99999] = -INFINITY;
  optim::GradScaler scaler;
  CHECK_FALSE(scaler.unscale(list));
  CHECK(to_string(*scaler.first_nonfinite()) == "'b' in step 0");
}

TEST_CASE("grad scaler: a loaded state continues with the same scales") {
  const optim::GradScalerOptions options{.initial_scale_power = 8, .loss_scale_window = 5, .hysteresis = 2};
  Run uninterrupted(options), first(options), second(options);
  const std::string_view before = "+++!++", after = "+++!!+++++";
  uninterrupted.run_steps(before);
  first.run_steps(before);
  second.scaler.load_state(first.scaler.state());
  CHECK(second.scaler.scale().item() == first.scaler.scale().item());
  CHECK(second.run_steps(after) == uninterrupted.run_steps(after));
}

TEST_CASE("grad scaler: the scale stays where doubling would overflow f32") {
  Run run({.initial_scale_power = 126, .loss_scale_window = 1, .hysteresis = 1});
  CHECK(run.run_steps("+++!+") == Powers{127, 127, 127, 126, 127});
  CHECK(std::isfinite(run.scaler.scale().item()));
  optim::GradScaler scaler;
  CHECK_THROWS_AS(scaler.load_state({.scale = 1e39, .hysteresis = 1, .good_steps = 0}), CheckpointError);
  CHECK_THROWS_AS(optim::GradScaler({.loss_scale = 1e39}), ConfigError);
}

TEST_CASE("grad scaler: options of a dynamic scale are not read for a static one") {
  for (const int64_t window : {0, -1}) {
    Run run({.loss_scale = 8.0, .loss_scale_window = window, .hysteresis = 0, .min_loss_scale = 0.0});
    CHECK(run.run_steps("++!+") == Powers{3, 3, 3, 3});
    run.scaler.load_state(run.scaler.state());
    CHECK(run.scaler.scale().item() == 8.0);
  }
}

TEST_CASE("grad scaler: bad input is refused") {
  CHECK_THROWS_AS(optim::GradScaler({.loss_scale = -1.0}), ConfigError);
  CHECK_THROWS_AS(optim::GradScaler({.initial_scale_power = 128}), ConfigError);
  CHECK_THROWS_AS(optim::GradScaler({.loss_scale_window = 0}), ConfigError);
  CHECK_THROWS_AS(optim::GradScaler({.hysteresis = 0}), ConfigError);
  CHECK_THROWS_AS(optim::GradScaler({.min_loss_scale = 0.0}), ConfigError);
  optim::GradScaler scaler;
  CHECK_THROWS_AS(scaler.load_state({.scale = 0.0, .hysteresis = 1, .good_steps = 0}), CheckpointError);
  CHECK_THROWS_AS(scaler.load_state({.scale = 8.0, .hysteresis = 3, .good_steps = 0}), CheckpointError);
  CHECK_THROWS_AS(scaler.load_state({.scale = 8.0, .hysteresis = 1, .good_steps = -1}), CheckpointError);
  ParameterList list;
  list.push_back({"h", Variable::parameter(Tensor::from({float16(1.0f)}))});
  list[0].variable.set_grad(Variable(Tensor::from({float16(1.0f)})));
  CHECK_THROWS_WITH_AS(scaler.unscale(list), doctest::Contains("gradient of 'h' is f16"), DTypeError);
}
