// vmap of operations without a batching rule: it runs the function in a loop, and errors name the operation.

#include <doctest/doctest.h>

#include "autograd/functional/transforms.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "tensor/ops/creation/random.h"
#include "tests/autograd/functional/goldens.h"

using namespace tessera;

namespace {

Tensor values(const Shape& shape, uint64_t key) {
  const Tensor x = Tensor::empty(shape, f64);
  ops::fill_normal(x, key);
  return x;
}

struct Row {
  const char* operation;
  std::function<Variable(const Variable& x)> f;  // of a sample (2, 4)
};

const Variable weight = values({4, 4}, 2);

const Row rows[] = {
    {"attention",
     [](const Variable& x) {
       const Variable q = reshape(x, {1, 1, 2, 4});
       return scaled_dot_product_attention(q, q, q);
     }},
    {"attention",
     [](const Variable& x) {
       return self_attention(reshape(repeat(x, {1, 3}), {1, 2, 12}), 2);
     }},
    {"dropout", [](const Variable& x) { return dropout(x, 0.5, /*key=*/3); }},
    {"dropout", [](const Variable& x) { return add_dropout(x, x * 2.0, {.probability = 0.5, .key = 3}); }},
    {"embedding_add",
     [](const Variable& x) {
       return embedding_add(Tensor::from<int64_t>({1, 3}, {1, 2}), weight, x);
     }},
    {"linear_cross_entropy",
     [](const Variable& x) {
       return linear_cross_entropy(x, weight, Tensor::from<int64_t>({1, 3}));
     }},
};

}  // namespace

TEST_CASE("vmap: attention, dropout and fused layers run in a loop, with its values and gradients") {
  for (const Row& row : rows) {
    CAPTURE(row.operation);
    std::vector<std::string> named;
    const auto run = [&](bool loop) {
      const Variable x = Variable::leaf(values({3, 2, 4}, 1));
      const Variable y = vmap(row.f, {.on_fallback = [&](const std::string& op) { named.push_back(op); },
                                      .always_loop = loop})(x);
      sum(y * y).backward();
      return std::pair(y.value(), x.grad().value());
    };
    const auto [y, dx] = run(false);
    CHECK(named == std::vector<std::string>{row.operation});
    const auto [expected_y, expected_dx] = run(true);
    CHECK(y.array_equal(expected_y));
    CHECK(dx.array_equal(expected_dx));
    CHECK(y.size(0) == 3);
    CHECK(named.size() == 1);
  }
}

TEST_CASE("vmap: the error of an operation without a rule names it and the loop") {
  for (const Row& row : rows) {
    CAPTURE(row.operation);
    const batched::Scope scope(3, Randomness::error);
    const Variable samples = batched::from_dim(values({3, 2, 4}, 1), 0);
    std::string message;
    try {
      row.f(samples);
    } catch (const NoBatchingRule& error) {
      message = error.what();
    }
    CHECK(message == "vmap: '" + std::string(row.operation) +
                         "' has no batching rule, so it cannot be computed for all samples at once; write "
                         "the function for a batch, or run it for one sample after another: "
                         "vmap(f, {.always_loop = true})");
  }
}

TEST_CASE("vmap: as torch.vmap, of the Jacobian and the Hessian too") {
  namespace func = autograd::functional;
  const Variable x = values({3, 4}, 1);
  const Variable doubled = vmap([](const Variable& row) { return row * 2.0; })(x);
  test::check_equal(doubled, (x * 2.0).value());
  const auto cubes = [](const Variable& row) { return row * row * row; };
  const Variable jacobians = vmap(func::jacrev(cubes))(x);
  const Variable hessians = vmap(func::hessian([&](const Variable& row) { return sum(cubes(row)); }))(x);
  CHECK(jacobians.shape() == Shape{3, 4, 4});
  test::check_equal(sum(jacobians, {2}), (x * x * 3.0).value());
  test::check_equal(sum(hessians, {1}), (x * 6.0).value());
  CHECK(func::hessian([&](const Variable& row) { return sum(cubes(row)); })(select(x, 0, 0)).shape() ==
        Shape{4, 4});
}
