// The dtype of each operation under autocast: dtypes.txt has PyTorch's (make_goldens.py).

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/activation.h"
#include "autograd/functions/elementwise/activation_function.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/in_place.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/indexing/advanced_indexing.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/indexing/sorting.h"
#include "autograd/functions/layers/activation_linear.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/dropout.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/losses/classification.h"
#include "autograd/functions/losses/distances.h"
#include "autograd/functions/losses/regression.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

using V = const Variable&;
using Operation = std::function<Variable(V a, V b)>;

Tensor index() {
  return Tensor::from<int64_t>({0, 1, 2, 3});
}
Variable row(V x) {
  return select(x, 0, 0);
}
Variable batch(V x) {
  return unsqueeze(x, 0);
}

/// As OPERATIONS in make_goldens.py: of two matrices of 4 x 4.
const std::map<std::string, Operation>& operations() {
  static const std::map<std::string, Operation> table{
      {"matmul", [](V a, V b) { return matmul(a, b); }},
      {"mm", [](V a, V b) { return mm(a, b); }},
      {"bmm", [](V a, V b) { return bmm(batch(a), batch(b)); }},
      {"mv", [](V a, V b) { return mv(a, row(b)); }},
      {"addmm", [](V a, V b) { return addmm(a, a, b); }},
      {"addmv", [](V a, V b) { return addmv(row(a), a, row(b)); }},
      {"baddbmm", [](V a, V b) { return baddbmm(batch(a), batch(a), batch(b)); }},
      {"einsum",
       [](V a, V b) {
         return einsum("ij,jk->ik", {a, b});
       }},
      {"einsum_of_one", [](V a, V) { return einsum("ij->j", {a}); }},
      {"linear", [](V a, V b) { return linear(a, b); }},
      {"linear_with_bias", [](V a, V b) { return linear(a, b, row(a)); }},
      {"scaled_dot_product_attention",
       [](V a, V b) {
         return scaled_dot_product_attention(batch(batch(a)), batch(batch(b)), batch(batch(b)));
       }},
      {"exp", [](V a, V) { return exp(a); }},
      {"expm1", [](V a, V) { return expm1(a); }},
      {"log", [](V a, V) { return log(a); }},
      {"log2", [](V a, V) { return log2(a); }},
      {"log10", [](V a, V) { return log10(a); }},
      {"log1p", [](V a, V) { return log1p(a); }},
      {"pow", [](V a, V b) { return pow(a, b); }},
      {"pow_of_scalar", [](V a, V) { return pow(2.0, a); }},
      {"pow_by_scalar", [](V a, V) { return pow(a, 2.0); }},
      {"reciprocal", [](V a, V) { return reciprocal(a); }},
      {"rsqrt", [](V a, V) { return rsqrt(a); }},
      {"tan", [](V a, V) { return tan(a); }},
      {"sinh", [](V a, V) { return sinh(a); }},
      {"cosh", [](V a, V) { return cosh(a); }},
      {"softplus", [](V a, V) { return softplus(a); }},
      {"softmax", [](V a, V) { return softmax(a); }},
      {"log_softmax", [](V a, V) { return log_softmax(a); }},
      {"logsumexp", [](V a, V) { return logsumexp(a, {0}); }},
      {"sum", [](V a, V) { return sum(a); }},
      {"sum_along", [](V a, V) { return sum(a, {0}); }},
      {"prod", [](V a, V) { return prod(a); }},
      {"cumsum", [](V a, V) { return cumsum(a, 0); }},
      {"cumprod", [](V a, V) { return cumprod(a, 0); }},
      {"norm", [](V a, V) { return norm(a); }},
      {"norm_along", [](V a, V) { return norm(a, 2, {0}); }},
      {"normalize", [](V a, V) { return normalize(a); }},
      {"layer_norm", [](V a, V b) { return layer_norm(a, row(b), row(b)); }},
      {"rms_norm", [](V a, V b) { return rms_norm(a, row(b)); }},
      {"cdist", [](V a, V b) { return cdist(a, b); }},
      {"cosine_similarity", [](V a, V b) { return cosine_similarity(a, b); }},
      {"cross_entropy", [](V a, V) { return cross_entropy(a, index()); }},
      {"cross_entropy_with_weight",
       [](V a, V b) { return cross_entropy(b, index(), {}, row(a).value().contiguous()); }},
      {"nll_loss", [](V a, V) { return nll_loss(a, index()); }},
      {"mse_loss", [](V a, V b) { return mse_loss(a, b); }},
      {"l1_loss", [](V a, V b) { return l1_loss(a, b); }},
      {"smooth_l1_loss", [](V a, V b) { return smooth_l1_loss(a, b); }},
      {"kl_div", [](V a, V b) { return kl_div(a, b); }},
      {"bce_with_logits", [](V a, V b) { return bce_with_logits(a, b); }},
      {"huber_loss", [](V a, V b) { return huber_loss(a, b); }},
      {"poisson_nll_loss", [](V a, V b) { return poisson_nll_loss(a, b); }},
      {"soft_margin_loss", [](V a, V b) { return soft_margin_loss(a, b); }},
      {"hinge_embedding_loss", [](V a, V b) { return hinge_embedding_loss(a, b); }},
      {"margin_ranking_loss", [](V a, V b) { return margin_ranking_loss(a, b, b); }},
      {"cosine_embedding_loss", [](V a, V b) { return cosine_embedding_loss(a, b, row(b)); }},
      {"triplet_margin_loss", [](V a, V b) { return triplet_margin_loss(a, b, b); }},
      {"dot", [](V a, V b) { return dot(row(a), row(b)); }},
      {"cat",
       [](V a, V b) {
         return cat({a, b}, 0);
       }},
      {"stack",
       [](V a, V b) {
         return stack({a, b}, 0);
       }},
      {"scatter_add",
       [](V a, V b) {
         return scatter_add(a, 0, index().view({1, 4}), narrow(b, 0, 0, 1));
       }},
      {"index_copy", [](V a, V b) { return index_copy(a, 0, index(), b); }},
      {"addcmul", [](V a, V b) { return addcmul(a, b, b); }},
      {"addcdiv", [](V a, V b) { return addcdiv(a, b, b); }},
      {"add", [](V a, V b) { return a + b; }},
      {"mul", [](V a, V b) { return a * b; }},
      {"outer", [](V a, V b) { return outer(row(a), row(b)); }},
      {"relu", [](V a, V) { return relu(a); }},
      {"gelu", [](V a, V) { return gelu(a); }},
      {"silu", [](V a, V) { return silu(a); }},
      {"tanh", [](V a, V) { return tanh(a); }},
      {"sigmoid", [](V a, V) { return sigmoid(a); }},
      {"elu", [](V a, V) { return elu(a); }},
      {"mish", [](V a, V) { return mish(a); }},
      {"logsigmoid", [](V a, V) { return logsigmoid(a); }},
      {"prelu", [](V a, V b) { return prelu(a, row(b)); }},
      {"leaky_relu", [](V a, V) { return leaky_relu(a); }},
      {"hardswish", [](V a, V) { return hardswish(a); }},
      {"hardtanh", [](V a, V) { return hardtanh(a); }},
      {"logaddexp", [](V a, V b) { return logaddexp(cast(a, b.dtype()), b); }},
      {"logcumsumexp", [](V a, V) { return logcumsumexp(a, 0); }},
      {"trace", [](V a, V) { return trace(a); }},
      {"mean", [](V a, V) { return mean(a); }},
      {"var", [](V a, V) { return var(a); }},
      {"std", [](V a, V) { return stddev(a); }},
      {"max", [](V a, V) { return max(a); }},
      {"sqrt", [](V a, V) { return sqrt(a); }},
      {"exp2", [](V a, V) { return exp2(a); }},
      {"sin", [](V a, V) { return sin(a); }},
  };
  return table;
}

/// A computed Variable of 4 x 4 values from 0.1 to 0.9 in `dtype`.
Variable matrix(DType dtype, double step) {
  Tensor x = Tensor::empty({4, 4}, f32);
  for (int64_t i = 0; i < 16; ++i)
    x.data<float>()[i] = static_cast<float>(0.1 + 0.8 * std::fmod(step * static_cast<double>(i), 1.0));
  return mul(Variable::leaf(x.to(dtype)), 1.0);
}

/// The result has the expected dtype and the values of the operation without autocast on operands of that
/// dtype; gradients have the dtypes of the operands, except for those of parameters that a kernel sums in
/// f32.
void check(const Operation& operation, DType first, DType second, DType expected, bool sums_in_f32 = false) {
  const Variable a = matrix(first, 0.37), b = matrix(second, 0.61);
  const RandomContext context = random_context();
  Variable y;
  {
    const RandomContextScope same(context);
    const AutocastScope autocast(bf16);
    y = operation(a, b);
  }
  CHECK(y.dtype() == expected);
  const RandomContextScope same(context);
  const Variable reference = operation(a.to(expected), b.to(expected));
  CHECK(y.value().contiguous().array_equal(reference.value().contiguous()));
  const std::vector<Variable> gradients =
      grad(std::vector{y}, std::vector{a, b}, std::vector{Variable(ops::ones(y.shape(), y.dtype()))},
           {.allow_unused = true});
  const bool some = gradients[0].defined() || gradients[1].defined();
  CHECK(some);
  if (sums_in_f32) return;
  if (gradients[0].defined()) CHECK(gradients[0].dtype() == first);
  if (gradients[1].defined()) CHECK(gradients[1].dtype() == second);
}

}  // namespace

TEST_CASE("autocast: the dtype of each operation is PyTorch's") {
  std::ifstream file(std::filesystem::path(TESSERA_TEST_DATA_DIR) / "autograd" / "autocast" / "dtypes.txt");
  std::string name, both_wide, both_half, mixed;
  size_t count = 0;
  for (; file >> name >> both_wide >> both_half >> mixed; ++count) {
    CAPTURE(name);
    REQUIRE(operations().count(name) == 1);
    const Operation& operation = operations().at(name);
    check(operation, f32, f32, parse_dtype(both_wide));
    check(operation, bf16, bf16, parse_dtype(both_half));
    check(operation, f32, bf16, parse_dtype(mixed));
  }
  CHECK(count == operations().size());
}

TEST_CASE("autocast: the dtype of operations that PyTorch does not have, or refuses") {
  begin_random_step(1, 0, std::vector<int64_t>{0, 1, 2, 3});
  const DropoutMask mask{.probability = 0.5, .key = 7};
  struct Row {
    const char* name;
    Operation operation;
    DType both_wide, both_half, mixed;
  };
  const Row rows[] = {
      {"activation_linear", [](V a, V b) { return activation_linear(Activation::gelu, a, b, row(b)); }, bf16,
       bf16, bf16},
      {"self_attention", [](V a, V) { return self_attention(batch(narrow(a, 1, 0, 3)), 1); }, bf16, bf16,
       bf16},
      {"binary_cross_entropy", [](V a, V b) { return binary_cross_entropy(a, b); }, f32, f32, f32},
      {"embedding_add",
       [](V a, V b) {
         return embedding_add(index().view({1, 4}), a, b);
       },
       f32, bf16, f32},
      {"add_dropout", [&](V a, V b) { return add_dropout(a, b, mask); }, f32, bf16, f32},
      {"add_layer_norm: sum", [&](V a, V b) { return add_layer_norm(a, b, mask, row(b), row(b)).sum; }, f32,
       bf16, f32},
      {"add_layer_norm: norm", [&](V a, V b) { return add_layer_norm(a, b, mask, row(b), row(b)).normal; },
       f32, bf16, f32},
      {"add_rms_norm", [&](V a, V b) { return add_rms_norm(a, b, mask, row(b)).normal; }, f32, bf16, f32},
  };
  for (const Row& each : rows) {
    CAPTURE(std::string(each.name));
    check(each.operation, f32, f32, each.both_wide);
    check(each.operation, bf16, bf16, each.both_half, true);
    check(each.operation, f32, bf16, each.mixed);
  }
}

TEST_CASE("autocast: linear_cross_entropy takes bf16 and gives f32") {
  const Variable x = matrix(f32, 0.37), weight = matrix(f32, 0.61);
  const Tensor class_weight = Tensor::from({0.3F, 1.0F, 0.7F, 2.0F});
  for (const bool weighted : {false, true}) {
    Variable loss;
    {
      const AutocastScope autocast(bf16);
      loss = linear_cross_entropy(x, weight, index(), {}, row(weight), weighted ? class_weight : Tensor());
    }
    CHECK(loss.dtype() == f32);
    const Variable low = x.to(bf16), low_weight = weight.to(bf16), bias = row(weight).to(bf16);
    // With class weights of f32 the logits exist, in bf16, and are then widened.
    const Variable expected =
        weighted ? cross_entropy(linear(low, low_weight, bias).to(f32), index(), {}, class_weight)
                 : linear_cross_entropy(low, low_weight, index(), {}, bias);
    CHECK(loss.item() == expected.item());
    for (const Variable& gradient : grad(loss, {x, weight})) CHECK(gradient.dtype() == f32);
  }
}

TEST_CASE("autocast: f64, integers and changes in place keep their dtypes") {
  const AutocastScope autocast(bf16);
  const Variable wide = ops::ones({2, 2}, f64);
  CHECK(matmul(wide, wide).dtype() == f64);
  CHECK(softmax(wide).dtype() == f64);
  CHECK(sum(Variable(index())).dtype() == i64);
  const Variable half = ops::ones({2, 2}, bf16);
  exp_(half);
  CHECK(half.dtype() == bf16);
  const Variable x = Variable::leaf(ops::ones({2, 2}, bf16)) * 1.0;
  exp_(x);
  CHECK(x.dtype() == bf16);
  CHECK(x.requires_grad());
}
