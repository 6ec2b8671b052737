// Modules that are checkpointed from outside: by type, by name, by predicate, by hand.

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <optional>

#include "autograd/debug/graph_dot.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/reduction.h"
#include "autograd/grad_mode.h"
#include "nn/checkpoint_modules.h"
#include "nn/layers/containers.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

/// Two layers with dropout; of an optional second argument, a scale and two results.
struct Wide : nn::Layer<Wide> {
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 4, .out = 32});
  nn::Dropout& drop = add<nn::Dropout>("drop", 0.4);
  nn::Linear& proj = add<nn::Linear>("proj", {.in = 32, .out = 4});
  mutable int runs = 0;
  std::pair<Variable, int> forward(const Variable& x, const std::optional<Variable>& more,
                                   double scale) const {
    ++runs;
    const Variable y = proj(drop(tanh(fc(x)))) * scale;
    return {more ? y + *more * *more : y, 7};
  }
};

struct Net : nn::Layer<Net> {
  nn::ModuleList<Wide>& blocks = add<nn::ModuleList<Wide>>("blocks");
  nn::Linear& head = add<nn::Linear>("head", {.in = 4, .out = 1});
  Net() {
    for (int i = 0; i < 3; ++i) blocks.push(Wide());
  }
  Variable forward(const Variable& x) const {
    Variable y = x;
    for (const Wide& block : blocks) {
      const auto [z, seven] = block(y, y, 0.5);
      double scale = seven;
      y = block(z, std::nullopt, scale).first;
    }
    return head(y);
  }
};

struct Step {
  int64_t saved = 0;
  std::vector<Tensor> gradients;
};

Step step(Net& net) {
  const Variable x = Variable::leaf(ops::full({8, 4}, Scalar(0.3), f32));
  begin_random_step(1, 0, {});
  const Variable loss = sum(net(x));
  Step result{.saved = saved_bytes(loss), .gradients = {}};
  loss.backward();
  result.gradients.push_back(x.grad().value());
  for (const NamedParameter& parameter : net.parameters())
    result.gradients.push_back(parameter.variable.grad().value());
  net.zero_grad();
  return result;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].raw_data(), b[i].raw_data(), static_cast<size_t>(a[i].nbytes())) != 0) return false;
  return true;
}

int runs_of(const Net& net) {
  int runs = 0;
  for (const Wide& block : net.blocks) runs += block.runs;
  return runs;
}

}  // namespace

TEST_CASE("checkpointed modules: the same bits for fewer bytes, however they are chosen") {
  Net net;
  nn::materialize(net, cpu(), 3);
  const Step all = step(net);
  CHECK(runs_of(net) == 6);
  const auto is_second = [](const nn::Module& module) { return module.full_name() == "blocks.1"; };
  const std::vector<std::string> three{"blocks.0", "blocks.1", "blocks.2"};
  const auto with = [&](const std::function<std::vector<std::string>()>& choose,
                        const std::vector<std::string>& chosen) {
    CHECK(choose() == chosen);
    const int before = runs_of(net);
    const Step some = step(net);
    CHECK(same_bits(some.gradients, all.gradients));
    CHECK(some.saved < all.saved);
    nn::end_checkpointing(net);
    return runs_of(net) - before;
  };
  // Each of the three blocks is called twice, and once more for each call that runs again.
  CHECK(with([&] { return nn::checkpoint_every<Wide>(net); }, three) == 12);
  CHECK(with([&] { return nn::checkpoint_matching(net, "Wide"); }, three) == 12);
  CHECK(with([&] { return nn::checkpoint_matching(net, "blocks\\.[12]"); }, {"blocks.1", "blocks.2"}) == 10);
  CHECK(with([&] { return nn::checkpoint_where(net, is_second); }, {"blocks.1"}) == 8);
  CHECK(with(
            [&] {
              net.at("blocks.2").set_checkpointed(true);
              return std::vector<std::string>{"blocks.2"};
            },
            {"blocks.2"}) == 8);
  CHECK(with([&] { return nn::checkpoint_matching(net, "Wide", {"linear"}); }, three) == 12);
  // A chosen module within a chosen one.
  CHECK(with([&] { return nn::checkpoint_matching(net, "Net|blocks\\.0|blocks\\.0\\.fc"); },
             {"", "blocks.0", "blocks.0.fc"}) > 6);
  CHECK(step(net).saved == all.saved);
  CHECK_FALSE(net.blocks[0].is_checkpointed());
}

TEST_CASE("checkpointed modules: hooks are called once, and what they replace is run again") {
  Net net;
  nn::materialize(net, cpu(), 3);
  int before = 0, after = 0, gradients = 0;
  net.blocks[1].register_forward_pre_hook([&](nn::Module&, const nn::CallVariables& inputs) {
    ++before;
    inputs[0] = inputs[0] * 2.0;
  });
  net.blocks[1].register_forward_hook(
      [&](nn::Module&, const nn::CallVariables&, const nn::CallVariables& outputs) {
        ++after;
        outputs[0] = outputs[0] * 3.0;
      });
  net.blocks[1].register_full_backward_hook(
      [&](nn::Module&, std::vector<Variable>&, const std::vector<Variable>&) { ++gradients; });
  const Step all = step(net);
  CHECK(before == 2);
  CHECK(after == 2);
  CHECK(gradients == 2);
  nn::checkpoint_every<Wide>(net);
  const Step some = step(net);
  CHECK(before == 4);
  CHECK(after == 4);
  CHECK(gradients == 4);
  CHECK(same_bits(some.gradients, all.gradients));
}

namespace {

/// Calls that cannot run again: with a pointer, a reference to what the caller owns, and by another name.
struct Pointing : nn::Layer<Pointing> {
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 4, .out = 4});
  Variable forward(const Variable& x, const double* factor) const { return fc(x) * *factor; }
  Variable forward(const Variable& x, std::vector<Variable>& seen) const {
    seen.push_back(fc(x));
    return seen.back();
  }
  Variable twice(const Variable& x) const {
    return call([&](const Variable& in) { return fc(in) + fc(x); }, x);
  }
  void nothing(const Variable& x) const {
    call([this](const Variable& in) { (void)fc(in); }, x);
  }
};

}  // namespace

namespace {

/// x times a tensor that the caller owns.
struct Masked : nn::Layer<Masked> {
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 4, .out = 4});
  Variable forward(const Variable& x, const Tensor& mask) const { return tanh(fc(x)) * Variable(mask); }
};

}  // namespace

TEST_CASE("checkpointed modules: a changed argument and a destroyed module are errors of backward") {
  const Variable x = Variable::leaf(ops::full({2, 4}, Scalar(0.3), f32));
  Tensor mask = ops::full({2, 4}, Scalar(0.5), f32);
  auto masked = std::make_unique<Masked>();
  nn::materialize(*masked, cpu(), 3);
  masked->set_checkpointed(true);
  sum((*masked)(x, mask)).backward();
  Variable loss = sum((*masked)(x, mask));
  mask.copy_from(ops::full({2, 4}, Scalar(0.7), f32));
  CHECK_THROWS_WITH_AS(loss.backward(),
                       doctest::Contains("was changed in place between forward and backward"), AutogradError);
  loss = sum((*masked)(x, mask));
  masked.reset();
  CHECK_THROWS_WITH_AS(loss.backward(), doctest::Contains("a module again that was destroyed"),
                       AutogradError);
}

TEST_CASE("checkpointed modules: what cannot run again, or chooses nothing, is refused") {
  Net net;
  CHECK_THROWS_WITH_AS(nn::checkpoint_matching(net, "Block"),
                       "activation checkpointing: 'Block' chooses no module of Net, which has Dropout, "
                       "Linear, Net, Wide",
                       ConfigError);
  CHECK_THROWS_WITH_AS(nn::checkpoint_matching(net, "blocks"), doctest::Contains("chooses no module of Net"),
                       ConfigError);  // a list, which is not called
  CHECK_THROWS_WITH_AS(nn::checkpoint_matching(net, "(x"),
                       doctest::Contains("expected a regular expression, got '(x'"), ConfigError);
  Pointing pointing;
  nn::materialize(pointing, cpu(), 3);
  const Variable x = Variable::leaf(ops::full({2, 4}, Scalar(0.3), f32));
  const double factor = 2;
  std::vector<Variable> seen;
  pointing.set_checkpointed(true);
  const auto message = doctest::Contains("Pointing '' is checkpointed: expected a call that can run again");
  CHECK_THROWS_WITH_AS(pointing(x, &factor), message, ConfigError);
  CHECK_THROWS_WITH_AS(pointing(x, seen), message, ConfigError);
  CHECK_THROWS_WITH_AS(pointing.twice(x), message, ConfigError);
  CHECK_THROWS_WITH_AS(pointing.nothing(x), message, ConfigError);
  {
    const NoGrad no_grad;  // nothing runs again
    CHECK(pointing(x, &factor).shape() == Shape{2, 4});
    CHECK(pointing.twice(x).shape() == Shape{2, 4});
  }
  Net wrong;
  nn::materialize(wrong, cpu(), 3);
  nn::checkpoint_every<Wide>(wrong, {"lineer"});
  CHECK_THROWS_WITH_AS(step(wrong), doctest::Contains("checkpoint 'blocks.0': option keep"), ValueError);
}
