#include <doctest/doctest.h>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "tests/support/error_text.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

TEST_CASE("attention: grouped queries equal each query head with its own head of k and v") {
  const Variable q = random_tensor({2, 6, 5, 4}, f64, 1), k = random_tensor({2, 2, 7, 4}, f64, 2),
                 v = random_tensor({2, 2, 7, 4}, f64, 3);
  const AttentionOptions grouped{.causal = true, .enable_gqa = true};
  const Variable y = scaled_dot_product_attention(q, k, v, grouped);
  CHECK(y.shape() == Shape{2, 6, 5, 4});
  for (int64_t head = 0; head < 6; ++head) {
    const Variable one = scaled_dot_product_attention(narrow(q, 1, head, 1), narrow(k, 1, head / 3, 1),
                                                      narrow(v, 1, head / 3, 1), {.causal = true});
    CHECK(largest_difference(y.value().narrow(1, head, 1), to_f64(one.value())) < 1e-14);
  }
}

TEST_CASE("attention: grouped queries have numeric gradients, and equal heads change nothing") {
  const auto attend = [](std::span<const Variable> in) {
    return std::vector<Variable>{
        scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true, .enable_gqa = true})};
  };
  const Variable q = Variable::leaf(random_tensor({1, 4, 3, 2}, f64, 1)),
                 k = Variable::leaf(random_tensor({1, 2, 3, 2}, f64, 2)),
                 v = Variable::leaf(random_tensor({1, 2, 3, 2}, f64, 3));
  const GradcheckResult result = gradcheck(attend, std::vector<Variable>{q, k, v});
  CHECK_MESSAGE(result.passed, result.message);
  const Variable all_k = random_tensor({1, 4, 3, 2}, f64, 4);
  const Variable with = scaled_dot_product_attention(q, all_k, all_k, {.enable_gqa = true});
  CHECK(largest_difference(with.value(), scaled_dot_product_attention(q, all_k, all_k).value()) == 0);
}

TEST_CASE("attention: numbers of heads that do not fit are refused, with the option to set") {
  const Variable q = Tensor::zeros({1, 4, 3, 2}), k = Tensor::zeros({1, 3, 3, 2}),
                 two = Tensor::zeros({1, 2, 3, 2});
  CHECK_THROWS_WITH_AS(
      scaled_dot_product_attention(q, k, k, {.enable_gqa = true}),
      "scaled_dot_product_attention: with enable_gqa the heads of k and v must divide those of "
      "q, got q (1, 4, 3, 2) and k or v (1, 3, 3, 2)",
      ShapeError);
  CHECK(contains(message_of<ShapeError>([&] { scaled_dot_product_attention(q, two, two); }),
                 "(k and v with fewer heads need {.enable_gqa = true})"));
}
