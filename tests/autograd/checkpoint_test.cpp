#include <doctest/doctest.h>

#include "autograd/debug/graph_dot.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/matmul.h"
#include "autograd/recompute/checkpoint.h"
#include "autograd/recompute/first_run.h"
#include "autograd/record.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/matmul.h"
#include "tensor/packed_weight_scope.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

Variable leaf(std::initializer_list<double> values) {
  return Variable::leaf(Tensor::from(values));
}
std::vector<double> values(const Variable& x) {
  return {x.value().data<double>(), x.value().data<double>() + x.numel()};
}
const Variable& seed() {
  static const Variable ones(Tensor::from({1.0, 1.0}));
  return ones;
}

}  // namespace

TEST_CASE("checkpoint: same gradients, one rerun per segment, less than half of the saved bytes") {
  const Variable x = leaf({0.5, -2.0}), w = leaf({1.5, 0.25});
  int runs = 0;
  const auto block = [&](const Variable& in) {
    ++runs;
    return in * w * in * w;
  };
  const Variable plain = block(block(x));
  const int64_t plain_bytes = saved_bytes(plain);
  plain.backward(seed());
  const auto dx = values(x.grad()), dw = values(w.grad());
  x.set_grad({});
  w.set_grad({});

  runs = 0;
  const Variable y = checkpoint(block, checkpoint(block, x));
  CHECK(runs == 2);
  CHECK(saved_bytes(y) < plain_bytes / 2);
  CHECK(values(y) == values(plain));
  y.backward(seed());
  CHECK(runs == 4);
  CHECK(values(x.grad()) == dx);
  CHECK(values(w.grad()) == dw);
}

TEST_CASE("checkpoint: the rerun stops at the last value needed") {
  const Variable x = leaf({1.0, 2.0});
  int tail_runs = 0;
  const Variable y = checkpoint(
      [&](const Variable& in) {
        const Variable h = in * in;
        ++tail_runs;
        return h + h;  // saves nothing: not computed again
      },
      x);
  y.backward(seed());
  CHECK(tail_runs == 1);
  CHECK(values(x.grad()) == std::vector<double>{4.0, 8.0});
}

TEST_CASE("checkpoint: segments nest") {
  const Variable x = leaf({1.5, -0.5});
  const auto inner = [](const Variable& in) { return in * in; };
  const auto outer = [&](const Variable& in) { return checkpoint(inner, checkpoint(inner, in)) * in; };
  outer(x).backward(seed());
  const auto expected = values(x.grad());
  x.set_grad({});
  checkpoint(outer, x).backward(seed());
  CHECK(values(x.grad()) == expected);
  CHECK(expected[0] == doctest::Approx(5 * 1.5 * 1.5 * 1.5 * 1.5));
}

TEST_CASE("checkpoint: retain_graph runs backward twice") {
  const Variable x = leaf({1.0, 3.0});
  const Variable y = checkpoint([](const Variable& in) { return in * in; }, x);
  y.backward(seed(), {.retain_graph = true});
  y.backward(seed());
  CHECK(values(x.grad()) == std::vector<double>{4.0, 12.0});
}

TEST_CASE("checkpoint: after a backward that retains the graph, what was computed again is dropped") {
  const auto account = make_intrusive<MemoryAccount>();
  AccountScope scope(account);
  const Variable x = Variable::leaf(Tensor::zeros({1000}, f64)), dy = Tensor::zeros({1000}, f64),
                 unused = Variable::leaf(Tensor::zeros({1000}, f64));
  const auto inner = [](const Variable& in) { return square(square(in)); };
  const auto outer = [&](const Variable& in) {
    return checkpoint(inner, checkpoint(inner, in)) + square(square(unused));
  };
  const Variable y = checkpoint(outer, x);
  const int64_t before = account->total().current;
  const auto gradients = grad({&y, 1}, {&x, 1}, {&dy, 1}, {.retain_graph = true});
  CHECK(account->total().current == before + 8000);  // the gradient
}

TEST_CASE("checkpoint: an unknown name in keep is an error that lists the known ones") {
  const Variable x = leaf({1.0, 2.0});
  const Segment segment = [](std::span<const Variable> in) -> std::vector<Variable> {
    return {in[0] * in[0]};
  };
  CHECK_THROWS_WITH_AS(checkpoint_segment("block", segment, {x}, {.keep = {"self_atention"}}),
                       doctest::Contains("'self_atention'"), ValueError);
  CHECK_THROWS_WITH_AS(checkpoint_segment("block", segment, {x}, {.keep = {"self_atention"}}),
                       doctest::Contains("'self_attention'"), ValueError);
  for (const char* known : {"activation_linear", "linear", "matmul", "scaled_dot_product_attention",
                            "self_attention"})  // not in this segment
    CHECK_NOTHROW(checkpoint_segment("block", segment, {x}, {.keep = {known}}));
}

namespace {

/// x * x under the name "expensive", which saves its result and counts how often it was computed.
Variable expensive_square(const Variable& x, int* computed) {
  const auto compute = [&] {
    ++*computed;
    return ops::mul(x.value(), x.value());
  };
  return record("expensive", compute, {x}, saved(x, saved_output(0)),
                [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  CHECK(s.tensor(1).numel() == 2);
                  return {s[0] * dy[0] * 2.0};
                });
}

}  // namespace

TEST_CASE("checkpoint: results that are kept are not computed again") {
  const Variable x = leaf({0.5, -2.0});
  int computed = 0, runs = 0;
  const Segment segment = [&](std::span<const Variable> in) -> std::vector<Variable> {
    ++runs;
    const Variable h = expensive_square(in[0] * 3.0, &computed);
    return {expensive_square(h + 1.0, &computed) * in[0]};
  };
  segment(std::vector<Variable>{x})[0].backward(seed());
  const auto expected = values(x.grad());
  for (const bool keep : {false, true}) {
    x.set_grad({});
    computed = runs = 0;
    const CheckpointOptions options{.keep = keep ? std::vector<std::string>{"expensive"}
                                                 : std::vector<std::string>{}};
    const Variable y = checkpoint_segment("kept", segment, {x}, options)[0];
    y.backward(seed(), {.retain_graph = true});
    CHECK(values(x.grad()) == expected);
    y.backward(seed());
    CHECK(values(x.grad())[1] == 2 * expected[1]);
    CHECK(runs == 3);  // each backward runs it again
    CHECK(computed == (keep ? 2 : 6));
  }
}

TEST_CASE("checkpoint: keep may name a custom operation that has only constants as inputs") {
  const Variable x = leaf({1.0, 2.0});
  int computed = 0;
  const Segment segment = [&](std::span<const Variable> in) -> std::vector<Variable> {
    return {in[0] * in[0] * expensive_square(Tensor::from({3.0, 4.0}), &computed)};
  };
  checkpoint_segment("kept", segment, {x}, {.keep = {"expensive"}})[0].backward(seed());
  CHECK(values(x.grad()) == std::vector<double>{2.0 * 9.0, 4.0 * 16.0});
  CHECK_NOTHROW(checkpoint_segment("kept", segment, {x.detach()}, {.keep = {"expensive"}}));
}

TEST_CASE("checkpoint: the rerun stops before an operation of which only inputs are needed") {
  const Variable x = leaf({1.0, 2.0});
  int computed = 0;
  const auto block = [&](const Variable& in) {
    const auto compute = [&] {
      ++computed;
      return ops::mul(in.value(), in.value());
    };
    return record(
        "last", compute, {in}, saved(in),
        [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients { return {s[0] * dy[0] * 2.0}; });
  };
  checkpoint(block, x).backward(seed());
  CHECK(computed == 1);
  CHECK(values(x.grad()) == std::vector<double>{2.0, 4.0});
}

TEST_CASE("checkpoint: a kept result that was changed in place is an error that names it") {
  const Variable x = leaf({1.0, 2.0});
  int computed = 0;
  Tensor kept;
  const Segment segment = [&](std::span<const Variable> in) -> std::vector<Variable> {
    const Variable h = expensive_square(in[0], &computed);
    if (!kept.defined()) kept = h.value();
    return {h * in[0]};
  };
  const Variable y = checkpoint_segment("kept", segment, {x}, {.keep = {"expensive"}})[0];
  ops::add_(kept, kept);
  CHECK_THROWS_WITH_AS(y.backward(seed()), doctest::Contains("result of 'expensive'"), AutogradError);
}

TEST_CASE("checkpoint: a rerun that calls kept operations in another order is an error that names both") {
  const Variable x = leaf({1.0, 2.0});
  int run = 0;
  const auto named = [](const char* name, const Variable& in) {
    return record(
        name, [&] { return ops::mul(in.value(), in.value()); }, {in}, saved(saved_output(0)),
        [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients { return {s[0] * dy[0] * 2.0}; });
  };
  const Segment segment = [&](std::span<const Variable> in) -> std::vector<Variable> {
    const bool first = ++run == 1;
    const Variable h = named(first ? "one" : "two", in[0] * 2.0);
    return {named(first ? "two" : "one", h)};
  };
  const Variable y = checkpoint_segment("kept", segment, {x}, {.keep = {"one", "two"}})[0];
  CHECK_THROWS_WITH_AS(y.backward(seed()), doctest::Contains("calls 'two' where the first run called 'one'"),
                       AutogradError);
}

TEST_CASE("checkpoint: a rerun with another operation of the same shape is an error that names both") {
  const Variable x = leaf({0.7, -0.3});
  int run = 0;
  const Segment segment = [&](std::span<const Variable> in) -> std::vector<Variable> {
    const Variable h = in[0] * in[0];
    return {++run == 1 ? tanh(h) : sigmoid(h)};
  };
  CHECK_THROWS_WITH_AS(
      checkpoint_segment("blocks.4", segment, {x})[0].backward(seed()),
      "checkpoint 'blocks.4': in the rerun 'sigmoid' saves value 2, (2,) f64 on cpu, where in the "
      "first run 'tanh' saved (2,) f64",
      AutogradError);
}

TEST_CASE("checkpoint: a rerun is known to what it runs, in nested segments too") {
  const Variable x = leaf({1.0, 2.0});
  int updates = 0, runs = 0;
  const auto inner = [&](const Variable& in) {
    ++runs;
    if (!is_recomputing()) ++updates;
    return in * in;
  };
  checkpoint([&](const Variable& in) { return checkpoint(inner, in) * in; }, x).backward(seed());
  CHECK(runs > 1);
  CHECK(updates == 1);
  CHECK(!is_recomputing());
}

TEST_CASE("checkpoint: a rerun that saves other values is an error that names the segment") {
  const Variable x = leaf({1.0, 2.0});
  int run = 0;
  const Segment changes_shape = [&](std::span<const Variable> in) -> std::vector<Variable> {
    const Variable h = ++run == 1 ? in[0] * in[0] : in[0].value().slice(0, 0, 1) * leaf({1.0});
    return {h};
  };
  CHECK_THROWS_WITH_AS(checkpoint_segment("blocks.2", changes_shape, {x})[0].backward(seed()),
                       doctest::Contains("checkpoint 'blocks.2'"), AutogradError);
  int calls = 0;
  const Segment saves_less = [&](std::span<const Variable> in) -> std::vector<Variable> {
    return {++calls == 1 ? in[0] * in[0] * in[0] : in[0] * in[0]};
  };
  CHECK_THROWS_WITH_AS(checkpoint_segment("blocks.3", saves_less, {x})[0].backward(seed()),
                       doctest::Contains("saved 2 values, the first run saved 4"), AutogradError);
}

TEST_CASE("checkpoint: a weight that stays packed serves the first run and the rerun, with the same bits") {
  struct Restore {
    MatmulBackend before = matmul_backend();
    ~Restore() { set_matmul_backend(before); }
  } restore;
  set_matmul_backend(MatmulBackend::packed);
  const Tensor values = random_tensor({32, 48}, f32, 1), weight = random_tensor({40, 48}, f32, 2);
  struct Gradients {
    Tensor x, w;
    int64_t kept;
  };
  const auto run = [&] {
    const Variable x = Variable::leaf(values), w = Variable::leaf(weight);
    const Variable y = checkpoint([&](const Variable& in) { return gelu(linear(in, w)); }, x);
    y.backward(Variable(ops::ones_like(y.value())));
    return Gradients{x.grad().value(), w.grad().value(), PackedWeightScope::kept_bytes()};
  };
  const Gradients without = run();
  const PackedWeightScope scope;
  const Gradients with = run();
  CHECK(without.kept == 0);
  CHECK(with.kept >= 4 * 40 * 48);
  CHECK(same_bits(with.x, without.x));
  CHECK(same_bits(with.w, without.w));
}
