#include "autograd/graph/saving_policy.h"

#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/recompute/checkpoint.h"
#include "autograd/record.h"
#include "tensor/ops/elementwise/binary.h"

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

/// A source that holds a copy, and counts how often it is read.
struct Copy : ValueSource {
  Tensor copy;
  int* produced;
  Copy(const Tensor& value, int* count) : copy(value.clone()), produced(count) {}
  Tensor produce() override {
    ++*produced;
    return copy;
  }
};

}  // namespace

TEST_CASE("saving policy: it decides about every saved value except parameters") {
  int decided = 0, produced = 0;
  const Variable x = leaf({2.0, 3.0}), w = Variable::parameter(Tensor::from({5.0, 7.0}));
  Variable y;
  {
    SavingPolicyScope scope([&](const char* op, const Tensor& value) {
      CHECK(std::string(op) == "mul");
      ++decided;
      return std::make_shared<Copy>(value, &produced);
    });
    y = x * w;
  }
  CHECK(decided == 1);
  y.backward(seed());
  CHECK(produced == 1);
  CHECK(values(x.grad()) == std::vector<double>{5.0, 7.0});
  CHECK(values(w.grad()) == std::vector<double>{2.0, 3.0});
}

TEST_CASE("saving policy: a change in place of the value is an error that names the operation") {
  const Variable x = leaf({2.0, 3.0});
  SavingPolicyScope scope([](const char*, const Tensor& value) -> std::shared_ptr<ValueSource> {
    value.zero();
    return nullptr;
  });
  CHECK_THROWS_WITH_AS(x * x, doctest::Contains("that 'mul' saves"), AutogradError);
}

TEST_CASE("saving policy: the innermost scope decides, and operations of a policy are held") {
  int outer = 0, inner = 0, produced = 0;
  const Variable x = leaf({2.0, 3.0}), w = Variable::parameter(Tensor::from({5.0, 7.0}));
  SavingPolicyScope outer_scope([&](const char*, const Tensor& value) {
    ++outer;
    const Variable from_policy = x * w;  // saves x: not given to a policy
    return std::make_shared<Copy>(value, &produced);
  });
  CHECK(current_saving_policy() != nullptr);
  {
    SavingPolicyScope held(nullptr);
    CHECK(current_saving_policy() == nullptr);
    const Variable y = x * w;
    SavingPolicyScope inner_scope([&](const char*, const Tensor&) -> std::shared_ptr<ValueSource> {
      ++inner;
      return nullptr;
    });
    const Variable z = x * w;
  }
  CHECK(outer == 0);
  CHECK(inner == 1);
  const Variable y = x * w;
  CHECK(outer == 1);
  CHECK(inner == 1);
}

TEST_CASE("saving policy: around a checkpointed segment it decides about the segment's inputs") {
  int decided = 0, produced = 0;
  const Variable x = leaf({1.5, -0.5});
  SavingPolicyScope scope([&](const char* op, const Tensor& value) {
    CHECK(std::string(op) == "checkpoint");
    ++decided;
    return std::make_shared<Copy>(value, &produced);
  });
  const Variable y = checkpoint([](const Variable& in) { return in * in; }, x);
  CHECK(decided == 1);
  for (int pass = 1; pass <= 2; ++pass) {
    y.backward(seed(), {.retain_graph = pass == 1});
    CHECK(decided == 1);
    CHECK(produced == pass);  // read once by each rerun
  }
  CHECK(values(x.grad()) == std::vector<double>{6.0, -2.0});
}

TEST_CASE("saving policy: inside a checkpointed segment it leaves the results that the segment keeps") {
  const Variable x = leaf({0.5, -2.0});
  int computed = 0, runs = 0;
  const Segment segment = [&](std::span<const Variable> in) -> std::vector<Variable> {
    ++runs;
    Variable h;
    {
      SavingPolicyScope held(nullptr);
      const auto compute = [&] {
        ++computed;
        return ops::mul(in[0].value(), in[0].value());
      };
      h = record(
          "square", compute, {in[0]}, saved(in[0]),
          [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients { return {s[0] * dy[0] * 2.0}; });
    }
    return {h * in[0]};
  };
  checkpoint_segment("kept", segment, {x}, {.keep = {"square"}})[0].backward(seed());
  CHECK(runs == 2);
  CHECK(computed == 1);
  CHECK(values(x.grad()) == std::vector<double>{0.75, 12.0});
}
