#include "dist/train/profile/flops_profile.h"

#include <doctest/doctest.h>

#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "models/presets.h"
#include "nn/layers/containers.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/profile/cost.h"
#include "tensor/profile/named_scope.h"
#include "tests/support/error_text.h"

using namespace tessera;
using training::FlopsProfile;
using training::PassCost;
using training::ProfileNode;

namespace {

/// Two layers, of which the second is called twice, and once more by the model itself.
struct Shared : nn::Layer<Shared> {
  nn::Linear& in = add<nn::Linear>("in", {.in = 8, .out = 16});
  nn::Linear& twice = add<nn::Linear>("twice", {.in = 16, .out = 16, .bias = false});
  Variable forward(const Variable& x) const { return twice(twice(in(x))); }
};

/// A module with a child that calls a module that is not below it.
struct Caller : nn::Layer<Caller> {
  const nn::Linear* other = nullptr;
  Variable forward(const Variable& x) const { return (*other)(x); }
};
struct Borrower : nn::Layer<Borrower> {
  nn::Linear& owned = add<nn::Linear>("owned", {.in = 4, .out = 4, .bias = false});
  Caller& caller = add<Caller>("caller");
  Borrower() { caller.other = &owned; }
  Variable forward(const Variable& x) const { return caller(x); }
};

/// Ties the weights of two layers.
struct TiedHead : nn::Layer<TiedHead> {
  Variable weight;
  explicit TiedHead(const Variable& shared) : weight(share_parameter("weight", shared)) {}
  Variable forward(const Variable& x) const { return linear(x, weight, {}); }
};
struct Tied : nn::Layer<Tied> {
  nn::Linear& first = add<nn::Linear>("first", {.in = 6, .out = 6, .bias = false});
  TiedHead& second = add<TiedHead>("second", first.weight);
  Variable forward(const Variable& x) const { return second(first(x)); }
};

/// A child with the name that the root has in profiles.
struct Inner : nn::Layer<Inner> {
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 4, .out = 4, .bias = false});
  Variable& scale = parameter("scale", {4, 4}, init::ones());
  Variable forward(const Variable& x) const { return matmul(fc(x), scale); }
};
struct Wrapper : nn::Layer<Wrapper> {
  Inner& model = add<Inner>("model");
  Variable forward(const Variable& x) const { return model(x); }
};

void train_step(nn::Module& module, const std::function<Variable()>& forward) {
  nn::materialize(module, cpu(), 1);
  forward().backward();
}

const ProfileNode& child(const ProfileNode& node, const std::string& name) {
  for (const ProfileNode& c : node.children)
    if (c.name == name) return c;
  FAIL("no child " << name);
  return node;
}

/// Checks that every node is its own plus its children, in all fields.
void check_sums(const ProfileNode& node) {
  CAPTURE(node.name);
  int64_t parameters = node.own_parameters;
  PassCost forward = node.own_forward, backward = node.own_backward;
  for (const ProfileNode& c : node.children) {
    check_sums(c);
    CHECK(c.depth == node.depth + 1);
    parameters += c.parameters;
    forward += c.forward;
    backward += c.backward;
  }
  CHECK(node.parameters == parameters);
  for (const auto& [total, sum] : {std::pair(node.forward, forward), {node.backward, backward}}) {
    CHECK(total.flops == sum.flops);
    CHECK(total.bytes == sum.bytes);
    CHECK(total.nanoseconds == sum.nanoseconds);
  }
  CHECK(node.own_forward.nanoseconds >= 0);
  CHECK(node.own_backward.nanoseconds >= 0);
}

constexpr int64_t product(int64_t rows, int64_t in, int64_t out) {
  return 2 * rows * in * out;
}

}  // namespace

TEST_CASE(
    "flops profile: Linear(256, 256) of a batch of 32 has 2*32*256*256 FLOPs, and backward twice that") {
  nn::Linear linear(256, 256);
  nn::materialize(linear, cpu(), 1);
  const Variable x = Variable(ops::ones({32, 256})).requires_grad_();
  const FlopsProfile profile = training::profile_modules(
      linear, [&] { sum(linear(x)).backward(); }, 7);
  const ProfileNode& root = profile.root;
  CHECK(root.name == "(model)");
  CHECK(root.kind == "Linear");
  CHECK(root.options == "256 -> 256");
  CHECK(root.forward.flops == 2 * 32 * 256 * 256);  // the bias is added within the product, and counts 0
  CHECK(root.backward.flops == 2 * root.forward.flops);
  CHECK(root.parameters == 256 * 256 + 256);
  CHECK(root.calls == 1);
  CHECK(profile.step == 7);
  CHECK_FALSE(profile.is_plan);
  // x, weight, bias and the result, each once.
  CHECK(root.forward.bytes >= 4 * (32 * 256 + 256 * 256 + 256 + 32 * 256));
  CHECK(root.nanoseconds() > 0);
  CHECK(root.nanoseconds() <= profile.nanoseconds);
}

TEST_CASE("flops profile: without a gradient of the input, backward has the weight's product alone") {
  nn::Linear linear(8, 16);
  nn::materialize(linear, cpu(), 1);
  const FlopsProfile profile = training::profile_modules(linear, [&] {
    sum(linear(Variable(ops::ones({3, 8})))).backward();
  });
  CHECK(profile.root.forward.flops == product(3, 8, 16));
  CHECK(profile.root.backward.flops == product(3, 8, 16));
}

TEST_CASE("flops profile: a forward alone has no backward") {
  nn::Linear linear(8, 16);
  nn::materialize(linear, cpu(), 1);
  const FlopsProfile profile = training::profile_modules(linear, [&] {
    linear(Variable(ops::ones({3, 8})));
  });
  CHECK(profile.root.forward.flops == product(3, 8, 16));
  CHECK(profile.root.backward.flops == 0);
  CHECK(profile.root.backward.nanoseconds == 0);
}

TEST_CASE(
    "flops profile: nodes are sums of their children, the root has the model's parameters and the "
    "optimizer's time") {
  models::Gpt gpt({.vocabulary = 11, .block_size = 8, .layers = 2, .heads = 2, .width = 16});
  nn::materialize(gpt, cpu(), 1);
  optim::AdamW adam(gpt.parameters());
  const Tensor ids = Tensor::zeros({2, 8}, i64);
  const FlopsProfile profile = training::profile_modules(gpt, [&] {
    gpt.loss(ids, ids).backward();
    adam.step();
  });
  check_sums(profile.root);
  CHECK(profile.root.parameters == gpt.parameters().numel());
  CHECK(profile.root.kind == "Gpt");
  CHECK(profile.root.nanoseconds() <= profile.nanoseconds);  // no time counts in two nodes
  CHECK(profile.phase_nanoseconds("backward") > 0);
  CHECK(profile.phase_nanoseconds("optimizer") > 0);
  CHECK(profile.phase_nanoseconds("no such phase") == 0);
  const ProfileNode& block = child(child(profile.root, "blocks"), "blocks.1");
  const ProfileNode& mlp = child(block, "blocks.1.mlp");
  CHECK(mlp.forward.flops == 2 * product(16, 16, 64));
  CHECK(mlp.backward.flops == 2 * mlp.forward.flops);
  CHECK(mlp.own_parameters == 0);
  CHECK(mlp.parameters == 2 * 16 * 64);
}

TEST_CASE("flops profile: all FLOPs of a step are in the tree") {
  models::Gpt gpt({.vocabulary = 11, .block_size = 8, .layers = 2, .heads = 2, .width = 16});
  nn::materialize(gpt, cpu(), 1);
  const Tensor ids = Tensor::zeros({2, 8}, i64);
  Cost cost;
  FlopsProfile profile;
  {
    const CostScope counting(cost);
    profile = training::profile_modules(gpt, [&] { gpt.loss(ids, ids).backward(); });
  }
  CHECK(profile.root.flops() == cost.flops);
  CHECK(cost.flops > 0);
}

TEST_CASE("flops profile: a module that is called twice is one node with the sum of its calls") {
  Shared shared;
  FlopsProfile profile = training::profile_modules(shared, [&] {
    train_step(shared, [&] { return sum(shared(Variable(ops::ones({5, 8})))); });
  });
  check_sums(profile.root);
  const ProfileNode& twice = child(profile.root, "twice");
  CHECK(twice.calls == 2);
  CHECK(twice.forward.flops == 2 * product(5, 16, 16));
  CHECK(twice.backward.flops == 2 * twice.forward.flops);
  CHECK(twice.parameters == 16 * 16);
  CHECK(profile.root.parameters == shared.parameters().numel());
}

TEST_CASE("flops profile: a module that another one calls counts where it is declared") {
  Borrower borrower;
  const FlopsProfile profile = training::profile_modules(borrower, [&] {
    train_step(borrower, [&] { return sum(borrower(Variable(ops::ones({3, 4})))); });
  });
  check_sums(profile.root);
  CHECK(child(profile.root, "owned").forward.flops == product(3, 4, 4));
  CHECK(child(profile.root, "caller").forward.flops == 0);
  CHECK(child(profile.root, "caller").calls == 1);
}

TEST_CASE("flops profile: tied weights count once, at their first module") {
  Tied tied;
  const FlopsProfile profile = training::profile_modules(tied, [&] {
    train_step(tied, [&] { return sum(tied(Variable(ops::ones({2, 6})))); });
  });
  CHECK(profile.root.parameters == 36);
  CHECK(child(profile.root, "first").parameters == 36);
  CHECK(child(profile.root, "second").parameters == 0);
  CHECK(child(profile.root, "second").forward.flops == product(2, 6, 6));
}

TEST_CASE("flops profile: a child named model and the root are two nodes") {
  Wrapper wrapper;
  const FlopsProfile profile = training::profile_modules(wrapper, [&] {
    train_step(wrapper, [&] { return sum(wrapper(Variable(ops::ones({3, 4})))); });
  });
  check_sums(profile.root);
  const ProfileNode& model = child(profile.root, "model");
  CHECK(profile.root.calls == 1);
  CHECK(model.calls == 1);
  CHECK(model.own_forward.flops == product(3, 4, 4));
  CHECK(model.own_backward.flops == 2 * product(3, 4, 4));
  CHECK(profile.root.own_forward.flops == 0);
  CHECK(profile.root.own_backward.flops == 0);
}

TEST_CASE("flops profile: of a submodule, and of scopes that are no modules") {
  Shared shared;
  nn::materialize(shared, cpu(), 1);
  const FlopsProfile profile = training::profile_modules(shared.in, [&] {
    shared(Variable(ops::ones({5, 8})));
  });
  CHECK(profile.root.name == "in");
  CHECK(profile.root.depth == 0);
  CHECK(profile.root.forward.flops == product(5, 8, 16));
  const FlopsProfile scoped = training::profile_modules(shared, [&] {
    const NamedScope loss("a scope of the user's");
    shared(Variable(ops::ones({5, 8})));
  });
  CHECK(scoped.root.forward.flops == product(5, 8, 16) + 2 * product(5, 16, 16));
}

TEST_CASE("flops profile: on meta it is a plan with the same FLOPs, without bytes and times") {
  const models::GptOptions options{.vocabulary = 11, .block_size = 8, .layers = 2, .heads = 2, .width = 16};
  const auto profile_on = [&](Device device) {
    models::Gpt gpt(options);
    if (!device.is_meta()) nn::materialize(gpt, device, 1);
    const Tensor ids = Tensor::empty({2, 8}, i64, device);
    if (!device.is_meta()) ids.zero();
    return training::profile_modules(gpt, [&] { gpt.loss(ids, ids).backward(); });
  };
  const FlopsProfile plan = profile_on(meta()), real = profile_on(cpu());
  CHECK(plan.is_plan);
  check_sums(plan.root);
  CHECK(plan.root.nanoseconds() == 0);
  CHECK(plan.root.bytes() == 0);
  CHECK(plan.nanoseconds == 0);
  CHECK(plan.phases.empty());
  CHECK(plan.root.parameters == real.root.parameters);
  const std::function<void(const ProfileNode&, const ProfileNode&)> compare = [&](const ProfileNode& a,
                                                                                  const ProfileNode& b) {
    CAPTURE(a.name);
    CHECK(a.own_forward.flops == b.own_forward.flops);
    CHECK(a.own_backward.flops == b.own_backward.flops);
    CHECK(a.calls == b.calls);
    for (size_t i = 0; i < a.children.size(); ++i) compare(a.children[i], b.children[i]);
  };
  compare(plan.root, real.root);
  const std::vector<const ProfileNode*> order = training::slowest_first(plan);
  for (size_t i = 1; i < order.size(); ++i) CHECK(order[i - 1]->own_flops() >= order[i]->own_flops());
}

TEST_CASE("flops profile: times, bytes and FLOPs of recorded spans, each for the innermost module") {
  Shared shared;
  Profiler profiler;
  const auto record = [](SpanKind kind, const char* name, const char* phase, int64_t begin, int64_t end,
                         int64_t flops = 0, bool nested = false) {
    record_span({.name = name,
                 .module = nullptr,
                 .phase = phase,
                 .stream = nullptr,
                 .begin = begin,
                 .end = end,
                 .bytes = kind == SpanKind::kernel ? 10 : 0,
                 .flops = flops,
                 .number = -1,
                 .kind = kind,
                 .nested = nested});
  };
  {
    const ProfilerScope recording(profiler);
    record(SpanKind::step, "step", nullptr, 0, 1000);
    record(SpanKind::kernel, "random", "data", 10, 20, 1);  // of no module
    record(SpanKind::phase, "forward", "forward", 100, 210);
    record(SpanKind::module, "model", "forward", 100, 200);
    record(SpanKind::module, "in", "forward", 110, 140);
    record(SpanKind::kernel, "matmul", "forward", 115, 135, 2);
    record(SpanKind::kernel, "pack", "forward", 116, 118, 4, true);  // inside matmul
    record(SpanKind::module, "twice", "forward", 150, 170);
    record(SpanKind::module, "twice", "forward", 170, 180);
    record(SpanKind::kernel, "add", "forward", 185, 190, 8);    // of the root
    record(SpanKind::kernel, "loss", "forward", 202, 208, 16);  // outside every module
    record(SpanKind::phase, "backward", "backward", 300, 400);
    record(SpanKind::module, "twice", "backward", 310, 350);
    record(SpanKind::rule, "linear", "backward", 311, 349);
    record(SpanKind::kernel, "matmul", "backward", 320, 340, 32);
    record(SpanKind::module, "another", "backward", 350, 360);  // of another model
    record(SpanKind::kernel, "matmul", "backward", 352, 358, 64);
    const ProfilerRankScope other_rank(1);
    record(SpanKind::module, "in", "forward", 110, 140);
    record(SpanKind::kernel, "matmul", "forward", 115, 135, 128);
  }
  const FlopsProfile profile = training::profile_from(shared, profiler);
  check_sums(profile.root);
  CHECK(profile.nanoseconds == 1000);
  CHECK(profile.phase_nanoseconds("forward") == 110);
  CHECK(profile.phase_nanoseconds("backward") == 100);
  const ProfileNode &root = profile.root, &in = child(root, "in"), &twice = child(root, "twice");
  CHECK(in.own_forward.nanoseconds == 30);
  CHECK(in.own_forward.flops == 2 + 4);
  CHECK(in.own_forward.bytes == 10);
  CHECK(twice.calls == 2);
  CHECK(twice.own_forward.nanoseconds == 30);
  CHECK(twice.own_backward.nanoseconds == 40);
  CHECK(twice.own_backward.flops == 32);
  CHECK(root.own_forward.nanoseconds == 100 - 30 - 30 + 6);
  CHECK(root.own_forward.flops == 8 + 16);
  CHECK(root.own_backward.nanoseconds == 0);
  CHECK(root.forward.nanoseconds == 106);
  CHECK(root.flops() == 2 + 4 + 8 + 16 + 32);
  CHECK(training::profile_from(shared, profiler, 1).root.flops() == 128);
  CHECK_THROWS_AS(training::profile_from(shared, profiler, 2), ValueError);
}

TEST_CASE("flops profile: the slowest module is first, by its own time") {
  FlopsProfile profile{.root = {.name = "(model)", .kind = "Net"}};
  profile.root.own_forward.nanoseconds = 5;
  profile.root.children = {
      {.name = "a", .kind = "A"}, {.name = "b", .kind = "B"}, {.name = "c", .kind = "C"}};
  profile.root.children[0].own_backward.nanoseconds = 5;
  profile.root.children[1].own_forward.nanoseconds = 3;
  profile.root.children[1].own_backward.nanoseconds = 4;
  const auto order = training::slowest_first(profile);
  REQUIRE(order.size() == 4);
  CHECK(order[0]->name == "b");
  CHECK(order[1]->name == "(model)");
  CHECK(order[2]->name == "a");
  CHECK(order[3]->name == "c");
}

TEST_CASE("flops profile: a step without a call of the module, or inside another profile, is an error") {
  nn::Linear linear(2, 2), other(2, 2);
  nn::materialize(linear, cpu(), 1);
  CHECK_THROWS_AS(training::profile_modules(linear, [] {}), ValueError);
  CHECK(contains(message_of<ValueError>([&] { training::profile_modules(linear, [] {}); }),
                 "no module of Linear"));
  CHECK_THROWS_AS(
      training::profile_modules(
          linear, [&] { training::profile_modules(linear, [&] {
                          linear(Variable(ops::ones({1, 2})));
                        }); }),
      ValueError);
}
