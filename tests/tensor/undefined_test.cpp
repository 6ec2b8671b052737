// An undefined tensor: every method and every operation refuses it with an error that has its name.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <tuple>
#include <type_traits>

#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/embedding_add.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/layers/activation_linear.h"
#include "tensor/ops/layers/attention.h"
#include "tensor/ops/layers/loss.h"
#include "tensor/ops/layers/normalization.h"
#include "tensor/ops/layers/softmax.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/shaping.h"
#include "tensor/ops/training/multi_tensor.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

/// Checks that the call, without argument `at`, throws an Error with `name` and "undefined".
void check_refused(const std::string& name, const std::function<void()>& call, size_t at = 0) {
  std::string message = "no error";
  try {
    call();
  } catch (const Error& error) {
    message = error.what();
  }
  const bool refused =
      message.find(name) != std::string::npos && message.find("undefined") != std::string::npos;
  CHECK_MESSAGE(refused, name, ", argument ", at, ": ", message);
}

/// Calls `op` with each of the defined tensors among `arguments` made undefined in turn.
template <class Op, class... Arguments>
void check_refuses(const char* name, const Op& op, const Arguments&... arguments) {
  const std::tuple<Arguments...> complete(arguments...);
  std::apply(op, complete);
  const auto without = [&]<size_t at>(std::integral_constant<size_t, at>) {
    if constexpr (std::is_same_v<std::tuple_element_t<at, std::tuple<Arguments...>>, Tensor>) {
      std::tuple<Arguments...> list = complete;
      if (!std::get<at>(list).defined()) return;
      std::get<at>(list) = Tensor();
      check_refused(
          name, [&] { std::apply(op, list); }, at);
    }
  };
  [&]<size_t... at>(std::index_sequence<at...>) {
    (without(std::integral_constant<size_t, at>()), ...);
  }
  (std::index_sequence_for<Arguments...>());
}

#define REFUSES_AS(name, op, ...) \
  check_refuses(                  \
      name, [](const auto&... given) { static_cast<void>(ops::op(given...)); }, __VA_ARGS__)
#define REFUSES(op, ...) REFUSES_AS(#op, op, __VA_ARGS__)

struct Operands {
  const Tensor matrix = filled({3, 4}, f32, scattered), square = filled({3, 3}, f32, scattered),
               truth = Tensor::zeros({3, 4}, boolean), rows = Tensor::from<int64_t>({0, 2, 1});
};

}  // namespace

TEST_CASE_FIXTURE(Operands,
                  "undefined tensor: `defined` is false, and its description is `an undefined tensor`") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK(to_string(describe(none)) == "an undefined tensor");
}

TEST_CASE_FIXTURE(Operands, "undefined tensor: every other method refuses it with its name") {
  const Tensor none;
#define METHOD(call, name) check_refused(name, [&] { static_cast<void>(none.call); })
  METHOD(dtype(), "dtype");
  METHOD(device(), "device");
  METHOD(is_meta(), "is_meta");
  METHOD(shape(), "shape");
  METHOD(strides(), "strides");
  METHOD(ndim(), "ndim");
  METHOD(numel(), "numel");
  METHOD(nbytes(), "nbytes");
  METHOD(offset(), "offset");
  METHOD(is_contiguous(), "is_contiguous");
  METHOD(storage(), "storage");
  METHOD(shares_storage(matrix), "shares_storage");
  METHOD(size(0), "size");
  METHOD(raw_data(), "data");
  METHOD(data<float>(), "data");
  METHOD(item(), "item");
  METHOD(item_i64(), "item");
  METHOD(view({0}), "view");
  METHOD(transpose(0, 0), "transpose");
  METHOD(permute({}), "permute");
  METHOD(expand({2}), "expand");
  METHOD(slice(0, 0, 1), "slice");
  METHOD(narrow(0, 0, 0), "narrow");
  METHOD(select(0, 0), "select");
  METHOD(unsqueeze(0), "unsqueeze");
  METHOD(squeeze(0), "squeeze");
  METHOD(flatten(), "flatten");
  METHOD(as_strided({0}, {1}, 0), "as_strided");
  METHOD(with_own_version(), "with_own_version");
  METHOD(with_version_of(matrix), "with_version_of");
  METHOD(reshape({0}), "reshape");
  METHOD(contiguous(), "contiguous");
  METHOD(clone(), "clone");
  METHOD(to(cpu()), "to");
  METHOD(to(meta()), "to");
  METHOD(copy_from(matrix), "copy_from");
  METHOD(copy_from(none), "copy_from");
  METHOD(zero(), "zero");
  METHOD(version(), "version");
  METHOD(bump_version(), "bump_version");
  check_refused("copy_from", [&] { matrix.copy_from(none); });
  check_refused("shares_storage", [&] { static_cast<void>(matrix.shares_storage(none)); });
  check_refused("with_version_of", [&] { static_cast<void>(matrix.with_version_of(none)); });
  check_refused("empty_like", [&] { Tensor::empty_like(none); });
  check_refused("zeros_like", [&] { Tensor::zeros_like(none); });
  CHECK_THROWS_AS(Tensor::over({}, f32, {1}, {1}), ValueError);
}

TEST_CASE_FIXTURE(Operands, "undefined tensor: elementwise operations refuse it") {
#define UNARY(op) REFUSES(op, matrix);
#define BINARY(op) REFUSES(op, matrix, matrix);
#define BINARY_INTEGERS(op) REFUSES(op, truth, truth);
  TESSERA_UNARY_FLOAT_OPS(UNARY)
  TESSERA_UNARY_NUMERIC_OPS(UNARY)
  TESSERA_UNARY_PREDICATES(UNARY)
  TESSERA_BINARY_NUMERIC_OPS(BINARY)
  TESSERA_BINARY_FLOAT_OPS(BINARY)
  TESSERA_BINARY_COMPARISONS(BINARY)
  TESSERA_BINARY_INTEGER_OPS(BINARY_INTEGERS)
  BINARY(greater)
  BINARY(greater_equal)
  REFUSES(bitwise_not, truth);
  REFUSES(logical_not, truth);
  REFUSES(logical_and, truth, truth);
  REFUSES(logical_or, truth, truth);
  REFUSES(logical_xor, truth, truth);
  REFUSES(add, matrix, 2.0);
  REFUSES(sub, 2.0, matrix);
  REFUSES(pow, matrix, 3.0);
  REFUSES(pow, 2.0, matrix);
  REFUSES(equal, matrix, 2.0);
  REFUSES_AS("add", add_, matrix.clone(), matrix);
  REFUSES_AS("sub", sub_, matrix.clone(), matrix);
  REFUSES_AS("mul", mul_, matrix.clone(), 2.0);
  REFUSES_AS("div", div_, matrix.clone(), matrix);
  REFUSES_AS("neg", unary_out, UnaryOp::neg, matrix, matrix.clone());
  REFUSES_AS("neg", unary_, UnaryOp::neg, matrix.clone());
  REFUSES_AS("add", binary_out, BinaryOp::add, matrix, matrix, matrix.clone());
  REFUSES_AS("add", binary_out, BinaryOp::add, matrix, 2.0, matrix.clone());
  REFUSES(where, truth, matrix, matrix);
  REFUSES(where, truth, matrix, 1.0);
  REFUSES(where, truth, 1.0, matrix);
  REFUSES(masked_fill, matrix, truth, 1.0);
  REFUSES(clamp, matrix, matrix, matrix);
  REFUSES(lerp, matrix, matrix, matrix);
  REFUSES(lerp, matrix, matrix, 0.5);
  REFUSES(addcmul, matrix, matrix, matrix, 1.0);
  REFUSES(addcdiv, matrix, matrix, matrix, 1.0);
  REFUSES(addcmul_, matrix.clone(), matrix, matrix, 1.0);
  REFUSES(cast, matrix, f64);
  REFUSES(cast, matrix, f32);
  REFUSES_AS("cast", cast_out, matrix, matrix.clone());
  REFUSES(fill_, matrix.clone(), 1.0);
  REFUSES(dropout, matrix, 0.5, uint64_t{1});
  REFUSES(add_dropout, matrix, matrix, ops::DropoutMask{0.5, 1});
}

TEST_CASE_FIXTURE(Operands, "undefined tensor: reductions, sorting and shaping refuse it") {
  const Shape last{1};
  REFUSES(sum, matrix, last);
  REFUSES(sum, matrix);
  REFUSES(mean, matrix, last);
  REFUSES(prod, matrix, last);
  REFUSES(max, matrix, last);
  REFUSES(min, matrix);
  REFUSES(any, truth, last);
  REFUSES(all, truth, last);
  REFUSES(var, matrix, last);
  REFUSES(std, matrix);
  REFUSES(norm, matrix, 2.0);
  REFUSES(logsumexp, matrix);
  REFUSES(argmax, matrix, 0);
  REFUSES(argmin, matrix, 0);
  REFUSES(argmax, matrix);
  REFUSES(argmin, matrix);
  REFUSES(sum_to, matrix, Shape{4});
  REFUSES(softmax, matrix, 1);
  REFUSES(log_softmax, matrix, 1);
  REFUSES(softmax_backward, matrix, matrix, 1);
  REFUSES(log_softmax_backward, matrix, matrix, 1);
  REFUSES(sort, matrix, 1);
  REFUSES(argsort, matrix, 1);
  REFUSES(topk, matrix, 1, 1);
  REFUSES(cumsum, matrix, 1);
  REFUSES(chunk, matrix, 2, 0);
  REFUSES(pad, matrix, Shape{1, 1}, Shape{0, 0});
  REFUSES(repeat, matrix, Shape{2, 2});
  REFUSES(flip, matrix, Shape{0});
  REFUSES(roll, matrix, 1, 0);
  REFUSES(tril, matrix);
  REFUSES(triu, matrix);
  const std::vector<Tensor> last_undefined{matrix, Tensor()}, first_undefined{Tensor(), matrix};
  for (const auto& list : {last_undefined, first_undefined}) {
    check_refused("cat", [&] { ops::cat(list, 0); });
    check_refused("stack", [&] { ops::stack(list, 0); });
  }
  check_refused("split", [&] { ops::split({}, std::vector<int64_t>{0}, 0); });
}

TEST_CASE_FIXTURE(Operands, "undefined tensor: products, layers and losses refuse it") {
  const Tensor weight = filled({2, 4}, f32, scattered), bias = Tensor::zeros({2}, f32),
               heads = filled({1, 2, 3, 4}, f32, scattered), none;
  REFUSES(matmul, square, matrix);
  REFUSES(matmul_out, matrix.clone(), square, matrix);
  REFUSES(matmul_accumulate, matrix.clone(), square, matrix);
  REFUSES(linear, matrix, weight, none);
  REFUSES(activation, Activation::gelu, matrix);
  REFUSES(activation_linear, Activation::gelu, matrix, weight, none);
  REFUSES(layer_norm, matrix, none, none);
  REFUSES(rms_norm, matrix, none);
  REFUSES(add_layer_norm, matrix, matrix, ops::DropoutMask(), none, none);
  REFUSES(add_rms_norm, matrix, matrix, ops::DropoutMask(), none);
  const ops::Normalized norm = ops::rms_norm(matrix, {});
  REFUSES(recompute_normalized, matrix, none, none, none, norm.rstd);
  REFUSES(normalization_backward, matrix, matrix, none, none, norm.rstd, 1);
  REFUSES(attention, heads, heads, heads, AttentionOptions());
  const ops::Attention forward = ops::attention(heads, heads, heads, {});
  REFUSES(attention_backward, heads, heads, heads, forward, heads, AttentionOptions(), heads.clone(),
          heads.clone(), heads.clone());
  REFUSES(cross_entropy, matrix, rows);
  const ops::CrossEntropy loss = ops::cross_entropy(matrix, rows);
  REFUSES(cross_entropy_backward, loss.loss, matrix, rows, none, loss, ops::CrossEntropyOptions());
  REFUSES(linear_cross_entropy, matrix, weight, none, Tensor::from<int64_t>({0, 1, 1}), none,
          ops::CrossEntropyOptions());
  const Tensor dy = Tensor::zeros({3, 2}, f32);
  REFUSES(activation_linear_backward, Activation::gelu, dy, matrix, weight, ops::ActivationLinearGradients());
}

TEST_CASE_FIXTURE(Operands,
                  "undefined tensor: operations with an index, on lists and with random numbers refuse it") {
  const Tensor none, ids = Tensor::zeros({3, 4}, i64), weight = filled({5, 4}, f32, scattered);
  REFUSES(embedding, rows, weight);
  REFUSES(embedding_accumulate, weight.clone(), matrix, rows);
  REFUSES(index_select, matrix, 0, rows);
  REFUSES_AS("index_add", index_add_out, weight.clone(), 0, rows, matrix);
  REFUSES(gather, matrix, 0, ids);
  REFUSES(scatter, matrix, 0, ids, matrix);
  REFUSES(scatter_add, matrix, 0, ids, matrix);
  REFUSES_AS("scatter_add", scatter_add_out, matrix.clone(), 0, ids, matrix);
  REFUSES(take_along, matrix, ids, 0);
  REFUSES(one_hot, rows, 3);
  REFUSES(embedding_add, Tensor::zeros({1, 3}, i64), weight, matrix);
  REFUSES(embedding_add_backward, matrix.view({1, 3, 4}), Tensor::zeros({1, 3}, i64), none, none);
  REFUSES(fill_uniform, matrix.clone(), uint64_t{1});
  REFUSES(fill_normal, matrix.clone(), uint64_t{1});
  REFUSES(fill_truncated_normal, matrix.clone(), uint64_t{1});
  REFUSES(fill_bernoulli, matrix.clone(), uint64_t{1}, 0.5);
  REFUSES(multinomial, ops::abs(matrix), 2, uint64_t{1});
  const std::vector<Tensor> list{matrix.clone(), Tensor()};  // passed over
  CHECK(ops::power_sums(list, 2).numel() == 2);
  check_refused("scale_in_place", [&] { ops::scale_in_place(list, {}); });
}
