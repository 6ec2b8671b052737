#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/activation_linear.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/graph/node.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

/// Runs `forward` and a backward twice: the second backward adds the same gradient in the same memory.
template <class Forward>
void check_accumulates_in_place(const Variable& leaf, const Variable& dy, const Forward& forward) {
  forward().backward(dy);
  const Tensor once = leaf.grad().value().clone(), buffer = leaf.grad().value();
  forward().backward(dy);
  CHECK(leaf.grad().value().shares_storage(buffer));
  const Tensor doubled = to_f64(once);
  for (int64_t i = 0; i < doubled.numel(); ++i) doubled.data<double>()[i] *= 2;
  CHECK(largest_difference(buffer, doubled) <= 1e-5);
  CHECK(largest_difference(once, Tensor::zeros(once.shape(), f64)) > 0);
}

}  // namespace

TEST_CASE("linear and matmul: a second backward adds to the weight's gradient in place") {
  const Variable x = random_tensor({3, 4, 6}, f32, 1), dy = random_tensor({3, 4, 5}, f32, 2);
  const Variable weight = Variable::leaf(random_tensor({5, 6}, f32, 3)),
                 bias = Variable::leaf(random_tensor({5}, f32, 4));
  check_accumulates_in_place(weight, dy, [&] { return linear(x, weight, bias); });
  const Variable matrix = Variable::leaf(random_tensor({6, 5}, f32, 5));
  check_accumulates_in_place(matrix, dy, [&] { return matmul(x, matrix); });
}

TEST_CASE("linear: bf16 products are added to an f32 gradient without rounding in between") {
  const Tensor x = random_tensor({8, 6}, bf16, 6), dy = random_tensor({8, 5}, bf16, 7);
  const Variable weight = Variable::leaf(random_tensor({5, 6}, bf16, 8));
  weight.set_grad_dtype(f32);
  weight.set_grad(Variable(Tensor::zeros({5, 6}, f32)));
  linear(x, weight).backward(Variable(dy));
  // Products of multiples of 1/128 are multiples of 2^-14: exact in f32, not in bf16.
  const Tensor exact = matmul(transpose(Variable(to_f64(dy)), 0, 1), Variable(to_f64(x))).value();
  CHECK(largest_difference(weight.grad().value(), exact) == 0.0);
}

TEST_CASE("embedding: a second backward adds to the table's gradient in place") {
  const Variable table = Variable::leaf(random_tensor({7, 5}, f32, 9));
  const Tensor ids = Tensor::from<int64_t>({3, 3, 0, 6}, {2, 2});
  check_accumulates_in_place(table, Variable(random_tensor({2, 2, 5}, f32, 10)),
                             [&] { return embedding(ids, table); });
}

TEST_CASE("linear and matmul: an operand is saved only where the other's gradient is wanted") {
  const Variable leaf = Variable::leaf(random_tensor({4, 4}, f32, 11)),
                 constant = random_tensor({4, 4}, f32, 12);
  const auto saved_bytes = [](const Variable& y) {
    int64_t bytes = 0;
    for (const SavedValue& value : y.node()->saved) bytes += value.nbytes();
    return bytes;
  };
  CHECK(saved_bytes(matmul(leaf, leaf)) == 2 * 64);
  CHECK(saved_bytes(matmul(leaf, constant)) == 64);
  CHECK(saved_bytes(linear(constant, leaf)) == 64);
  CHECK(saved_bytes(transpose(leaf, 0, 1)) == 0);
  // A parameter is saved by reference: its values are read when backward reaches it.
  CHECK(saved_bytes(linear(leaf, Variable::parameter(random_tensor({4, 4}, f32, 13)))) == 64);
}

TEST_CASE(
    "split: an unused result receives zeros; an in-place change of a result is an error, of the base not") {
  const Variable x = Variable::leaf(random_tensor({2, 6}, f32, 14));
  const Variable y = x * x;
  const std::vector<int64_t> sizes{1, 2, 3};
  const std::vector<Variable> results = split(y, sizes, 1);
  CHECK_THROWS_AS(add_(results[0], results[0]), AutogradError);
  add_(y, y);  // the views follow
  results[1].backward(Variable(Tensor::from<float>({1, 1, 1, 1}, {2, 2})));
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 6; ++j) {
      const float expected = j == 1 || j == 2 ? 4 * x.value().data<float>()[i * 6 + j] : 0.0f;
      CHECK(x.grad().value().data<float>()[i * 6 + j] == expected);
    }
}

TEST_CASE("views: gradients of overlapping windows add up") {
  const Variable x = Variable::leaf(random_tensor({5}, f32, 15));
  const Variable y = narrow(x, 0, 0, 3) + narrow(x, 0, 2, 3) + slice(x, 0, 0, 5, 2);
  y.backward(Variable(Tensor::from<float>({1, 10, 100})));
  CHECK(same_bits(x.grad().value(), Tensor::from<float>({2, 10, 111, 10, 200})));
}

TEST_CASE("meta: a backward of products, views and lookups yields the gradients' shapes") {
  const Variable x = Variable::leaf(Tensor::empty({2, 3, 6}, f32, meta()));
  const Variable weight = Variable::leaf(Tensor::empty({4, 6}, f32, meta()));
  const Variable table = Variable::leaf(Tensor::empty({9, 4}, f32, meta()));
  const Tensor ids = Tensor::empty({2, 3}, i64, meta());
  const Variable y = cat({linear(x, weight), embedding(ids, table)}, -1);
  select(y, 1, 0).backward(Variable(Tensor::empty({2, 8}, f32, meta())));
  CHECK(x.grad().shape() == Shape{2, 3, 6});
  CHECK(weight.grad().shape() == Shape{4, 6});
  CHECK(table.grad().shape() == Shape{9, 4});
}

TEST_CASE("activation_linear: the gradient is written over the saved input if nothing reads that later") {
  const Variable x = Variable::leaf(random_tensor({40, 48}, f32, 21)), two = Tensor::scalar(2.0f);
  const Variable weight = Variable::leaf(random_tensor({24, 48}, f32, 22));
  const void* input_address = nullptr;
  const void* gradient_address = nullptr;
  const auto loss = [&](bool keep, Variable* kept) {
    const Variable h = x * two;
    input_address = h.value().raw_data();
    h.register_hook([&](const Variable& gradient) {
      gradient_address = gradient.value().raw_data();
      return Variable();
    });
    if (keep) *kept = h;
    return sum(square(activation_linear(Activation::gelu, h, weight)));
  };
  Variable kept;
  const auto expected = grad(loss(true, &kept), {x, weight});
  CHECK(gradient_address != input_address);
  const auto overwritten = grad(loss(false, nullptr), {x, weight});
  CHECK(gradient_address == input_address);
  const Variable again = loss(false, nullptr);
  for (int pass = 0; pass < 2; ++pass) {
    const auto retained = grad(again, {x, weight}, {.retain_graph = true});
    CHECK(gradient_address != input_address);
    for (size_t i = 0; i < 2; ++i) CHECK(same_bits(retained[i].value(), expected[i].value()));
  }
  for (size_t i = 0; i < 2; ++i) CHECK(same_bits(overwritten[i].value(), expected[i].value()));
}

TEST_CASE("linear and activation_linear: a weight's gradient has the leaf's gradient dtype") {
  const Tensor x = random_tensor({6, 4}, f32, 1), dy = random_tensor({6, 3}, f32, 2),
               w = random_tensor({3, 4}, f32, 3);
  for (const bool activated : {false, true})
    for (DType kept : {f64, bf16}) {
      const Variable weight = Variable::leaf(w.clone()), wide = Variable::leaf(w.clone());
      weight.set_grad_dtype(kept);
      const auto run = [&](const Variable& leaf) {
        const Variable y = activated ? activation_linear(Activation::gelu, x, leaf) : linear(x, leaf);
        y.backward(Variable(dy));
      };
      for (int i = 0; i < 2; ++i) run(weight), run(wide);  // the second gradient is added
      CHECK(weight.grad().dtype() == kept);
      CHECK(largest_difference(weight.grad().value(), wide.grad().value()) <= (kept == f64 ? 1e-5 : 0.2));
    }
}
