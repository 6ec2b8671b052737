// Dropout on tensors in which the first dimension is not the batch: each sample keeps its mask.
#include <doctest/doctest.h>

#include <numeric>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/layers/attention.h"
#include "autograd/functions/layers/normalization.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "autograd/recompute/checkpoint.h"
#include "autograd/views/sample_layout.h"
#include "nn/layers/dropout.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/layers/attention.h"
#include "tensor/ops/shaping.h"
#include "tensor/random/random_context.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

constexpr uint64_t key = 99;
constexpr int64_t T = 5, C = 6;

/// A step with samples 3, 4, ... of the batch.
class Step {
 public:
  explicit Step(int64_t samples) : scope_(RandomContext()) {
    std::vector<int64_t> indices(static_cast<size_t>(samples));
    std::iota(indices.begin(), indices.end(), 3);
    begin_random_step(7, 2, indices);
  }

 private:
  RandomContextScope scope_;
};

Variable ones(const Shape& shape) {
  return Variable::leaf(ops::ones(shape, f32));
}

/// The mask of a batch-first (B, T, C).
Tensor reference(int64_t batch) {
  return ops::dropout(ops::ones({batch, T, C}, f32), 0.5, key);
}

bool same(const Variable& y, const Tensor& expected) {
  return same_bits(y.value().contiguous(), expected.contiguous());
}

}  // namespace

TEST_CASE("sample layout: a sample has one mask, batch first, time first and joined, forward and backward") {
  for (const int64_t batch : {4, 5, 1}) {  // 5 is also T
    CAPTURE(batch);
    const Step step(batch);
    const Tensor mask = reference(batch);
    const Variable x = ones({batch, T, C});
    const std::vector<std::pair<Variable, Tensor>> cases = {
        {dropout(x, 0.5, key), mask},
        {dropout(transpose(x, 0, 1), 0.5, key), mask.transpose(0, 1)},
        {dropout(reshape(x, {batch * T, C}), 0.5, key), mask.reshape({batch * T, C})},
        {dropout(flatten(transpose(x, 0, 1), 0, 1), 0.5, key), mask.transpose(0, 1).reshape({T * batch, C})},
        {dropout(permute(x, {-2, 0, -1}), 0.5, key), mask.transpose(0, 1)},
        {dropout(unsqueeze(transpose(x, 0, 1), 0), 0.5, key), mask.transpose(0, 1).unsqueeze(0)},
        {dropout(transpose(transpose(x, 0, 1), 0, 1), 0.5, key), mask},
    };
    for (size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(i);
      CHECK(same(cases[i].first, cases[i].second));
      x.set_grad({});
      sum(cases[i].first).backward();
      CHECK(same(x.grad(), mask));  // x is all ones
    }
  }
}

TEST_CASE("sample layout: operations propagate it") {
  const int64_t batch = T;  // so only the recorded layout distinguishes the two dimensions
  const Step step(batch);
  const Tensor mask = reference(batch).transpose(0, 1);
  const Variable x = transpose(ones({batch, T, C}), 0, 1);
  const Variable one = Variable::leaf(ops::ones({C, C}, f32)), bias = Variable::leaf(ops::zeros({C}, f32));
  const auto dropped = [&](const Variable& h) { return dropout(h, 0.5, key).value().contiguous(); };
  CHECK(same_bits(dropped(x * 1.0), mask.contiguous()));
  CHECK(same_bits(dropped(linear(x, one, bias) * (1.0 / C)), mask.contiguous()));
  CHECK(same_bits(dropped(x + dropout(x * 0.0, 0.5, 3)), mask.contiguous()));
  const Variable parts[] = {narrow(x, 2, 0, 2), narrow(x, 2, 2, C - 2)};
  CHECK(same_bits(dropped(cat(parts, 2)), mask.contiguous()));
  std::vector<Variable> steps;
  for (int64_t t = 0; t < T; ++t) steps.push_back(select(x, 0, t));
  CHECK(same_bits(dropped(stack(steps, 0)), mask.contiguous()));
  const NoGrad no_grad;
  CHECK(same_bits(dropped(x.detach() * 1.0), mask.contiguous()));
}

TEST_CASE("sample layout: reductions keep it where they keep the samples' dimension") {
  const int64_t batch = T;
  const Step step(batch);
  const Variable x = transpose(ones({batch, T, C}), 0, 1);
  const Tensor per_element = ops::dropout(ops::ones({batch, C}, f32), 0.5, key),
               per_time = ops::dropout(ops::ones({batch, T}, f32), 0.5, key).transpose(0, 1);
  CHECK(same(dropout(mean(x, {0}), 0.5, key), per_element));
  CHECK(same(dropout(max(x, {0}), 0.5, key), per_element));
  CHECK(same(dropout(mean(x, {0}, true), 0.5, key), per_element.unsqueeze(0)));
  CHECK(same(dropout(mean(x, {-1}), 0.5, key), per_time));
  CHECK(same(dropout(x * mean(x, {2}, true), 0.5, key), reference(batch).transpose(0, 1)));
}

TEST_CASE("sample layout: an in-place write gives its target the layout of the source") {
  const auto collected = [](const Variable& buffer, const Variable& x) {
    for (int64_t t = 0; t < T; ++t) add_(select(buffer, 0, t), select(x, 1, t) * 1.0);
    return dropout(buffer, 0.5, key);
  };
  for (const int64_t batch : {4, 5}) {
    CAPTURE(batch);
    const Step step(batch);
    const Tensor mask = reference(batch).transpose(0, 1).contiguous();
    const Variable x = ones({batch, T, C});
    const Variable buffer(ops::zeros({T, batch, C}, f32)), declared(ops::zeros({T, batch, C}, f32));
    set_sample_layout(declared, samples_along(1));
    CHECK(same(collected(declared, x), mask));
    if (batch == T)  // by default the buffer's samples are along its first dimension
      CHECK_THROWS_WITH_AS(collected(buffer, x), doctest::Contains("along another dimension"), ValueError);
    else
      CHECK(same(collected(buffer, x), mask));

    const Variable sums(ops::zeros({T, batch, C}, f32));
    add_(sums, transpose(x, 0, 1));
    if (batch == T)
      CHECK_THROWS_AS(dropout(sums, 0.5, key), ValueError);
    else
      CHECK(same(dropout(sums, 0.5, key), mask));

    const Variable first(ops::ones({batch, T, C}, f32));
    mul_(reshape(first, {batch * T, C}), Scalar(1.0));
    mul_(transpose(first, 0, 1), transpose(x, 0, 1));
    mul_(select(first, 1, 0), select(x, 1, 0));
    mul_(narrow(first, 2, 0, 2), Scalar(1.0));
    CHECK(same(dropout(first, 0.5, key), reference(batch)));
  }
}

TEST_CASE("sample layout: declared in the call or in nn::Dropout") {
  const int64_t batch = 4;
  const Step step(batch);
  const Tensor mask = reference(batch), time_first = mask.transpose(0, 1).contiguous();
  const Tensor x = ops::ones({T, batch, C}, f32);
  CHECK(same(dropout(x, 0.5, key, samples_along(1)), time_first));
  CHECK(same(dropout(x, 0.5, key, samples_along(-2)), time_first));
  CHECK(same(dropout(x.view({T * batch, C}), 0.5, key, samples_along(0, 1, T)),
             time_first.view({T * batch, C})));
  CHECK(same(dropout(x.view({batch * T, C}), 0.5, key, samples_along(0, T)), mask.view({batch * T, C})));
  const Variable declared(x);
  set_sample_layout(declared, samples_along(1));
  CHECK(same(dropout(declared, 0.5, key), time_first));

  nn::Dropout first(0.5), second({.probability = 0.5, .samples = samples_along(1)});
  const Variable a = first(Variable(ops::ones({batch, T, C}, f32)));
  begin_random_step(7, 2, random_context().samples);  // both are the first call of a module without a name
  CHECK(same(second(Variable(x)), a.value().transpose(0, 1)));
  // A result of operations on what all samples share is shared too.
  const Variable positions(ops::ones({batch, C}, f32));
  set_sample_layout(positions, no_samples());
  const Tensor of_positions = ops::dropout(positions.value(), {0.5, key, no_samples()});
  CHECK(same(dropout(positions * 1.0, 0.5, key), of_positions));
  CHECK(same(dropout(transpose(positions, 0, 1), 0.5, key),
             ops::dropout(ops::ones({C, batch}, f32), {0.5, key, no_samples()})));
  mul_(positions, Scalar(1.0));
  CHECK(same(dropout(positions, 0.5, key), of_positions));
  // What all samples share has the same mask in every micro-batch.
  const Tensor shared = ops::dropout(ops::ones({T, C}, f32), {0.5, key, no_samples()});
  begin_random_step(7, 2, std::vector<int64_t>{3});
  CHECK(same_bits(ops::dropout(ops::ones({T, C}, f32), {0.5, key, no_samples()}), shared));
}

TEST_CASE("sample layout: the fused additions have the same mask") {
  const int64_t batch = T;
  const Step step(batch);
  const Tensor mask = reference(batch).transpose(0, 1).contiguous();
  const Variable x = Variable::leaf(ops::zeros({T, batch, C}, f32));
  const Variable leaf = ones({batch, T, C}), delta = transpose(leaf, 0, 1);
  CHECK(same(add_dropout(x, delta, {.probability = 0.5, .key = key}), mask));
  const Variable table = ones({3, C});
  const Variable looked_up = embedding_add(ops::zeros({T, batch}, i64), table, ops::zeros({batch, C}, f32),
                                           {.probability = 0.5, .key = key, .samples = samples_along(1)});
  CHECK(same(looked_up, mask));
  CHECK(same(dropout(looked_up * 0.0 + 1.0, 0.5, key), mask));
  sum(looked_up).backward();
  CHECK(same(select(table.grad(), 0, 0), sum(Variable(mask), {0, 1}).value()));
  const SumAndNorm fused = add_layer_norm(x, delta, {.probability = 0.5, .key = key});
  CHECK(same(fused.sum, mask));
  sum(fused.sum).backward();
  CHECK(same(leaf.grad(), mask.transpose(0, 1)));
}

TEST_CASE("sample layout: a checkpointed segment keeps the layout of its input") {
  const int64_t batch = T;
  const Step step(batch);
  const Variable x = ones({batch, T, C});
  const Segment segment = [](std::span<const Variable> in) {
    return std::vector<Variable>{dropout(in[0] * in[0], 0.5, key)};
  };
  sum(segment(std::vector<Variable>{transpose(x, 0, 1)})[0]).backward();
  const Tensor plain = x.grad().value().clone();
  x.set_grad({});
  sum(checkpoint_segment("part", segment, {transpose(x, 0, 1)})[0]).backward();
  CHECK(same(x.grad(), plain));
}

TEST_CASE("sample layout: where it is unknown, the error names the call that declares it") {
  const Step step(4);
  const Tensor joined = ops::ones({12, C}, f32);
  CHECK_THROWS_WITH_AS(dropout(joined, 0.5, key), doctest::Contains("samples_along(0, T) for (B T, C)"),
                       ValueError);
  CHECK_THROWS_WITH_AS(dropout(joined, 0.5, key), doctest::Contains("holds 12 samples along dimension 0"),
                       ValueError);
  CHECK_THROWS_AS(dropout(ops::ones({2, C}, f32), 0.5, key), ValueError);  // not all samples of the batch
  CHECK_THROWS_AS(dropout(joined, 0.5, key, samples_along(0, 5)), ShapeError);
  CHECK_THROWS_AS(dropout(joined, 0.5, key, samples_along(2)), ShapeError);
  CHECK_THROWS_AS(set_sample_layout(joined, samples_along(0, 5)), ShapeError);
  // Where the samples' dimension is split or permuted, no dimension counts the samples, whatever its extent.
  const Variable x = transpose(ones({4, 4, C}), 0, 1);
  CHECK_THROWS_WITH_AS(dropout(reshape(x, {4, 2, 2, C}), 0.5, key),
                       doctest::Contains("along another dimension"), ValueError);
  const Variable rows = reshape(x, {16, C});
  CHECK_THROWS_AS(dropout(index_select(rows, 0, ops::flip(ops::arange(16, i64), {0})), 0.5, key), ValueError);
  CHECK_THROWS_AS(dropout(flip(rows, {0}), 0.5, key), ValueError);
  CHECK_THROWS_AS(dropout(roll(x, 1, 1), 0.5, key), ValueError);
  CHECK_NOTHROW(dropout(roll(x, 1, 0), 0.5, key));
  CHECK_THROWS_AS(dropout(sum(x, {1}), 0.5, key), ValueError);
  CHECK_THROWS_AS(dropout(Variable(), 0.5, key), Error);
  CHECK_THROWS_AS(set_sample_layout(Variable(), no_samples()), Error);
  const Tensor q = ops::ones({3, 1, 2, 4}, f32);
  CHECK_THROWS_AS(ops::attention(q, q, q, {.dropout = 0.5, .key = 1}), ValueError);
  // Attention takes samples along the first dimension only: heads or times of the batch's length are refused.
  const AttentionOptions dropping{.dropout = 0.5, .key = 1};
  const Variable heads = transpose(ones({4, 4, 2, C}), 0, 1), times = transpose(ones({4, 4, 3 * C}), 0, 1);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(heads, heads, heads, dropping),
                       doctest::Contains("they lie elsewhere"), ValueError);
  CHECK_THROWS_AS(self_attention(times, 2, dropping), ValueError);
  CHECK_NOTHROW(scaled_dot_product_attention(transpose(heads, 0, 1), heads, heads, dropping));
  CHECK_NOTHROW(self_attention(times, 2, {}));
  CHECK_THROWS_AS(self_attention(Variable(), 2, dropping), Error);
}

TEST_CASE("sample layout: a view that is older than a write follows its base") {
  const Step step(4);
  const Variable x = Variable::leaf(ops::ones({4, 4, C}, f32));
  for (const bool recorded : {true, false}) {
    const Variable source = recorded ? x : Variable(x.value());
    const Variable buffer = Tensor::zeros({4, 4, C}, f32), flat = reshape(buffer, {16, C});
    for (int64_t t = 0; t < 4; ++t) add_(select(buffer, 0, t), select(source, 1, t));  // (T, B, C)
    CHECK_THROWS_AS(dropout(buffer, 0.5, key), ValueError);
    CHECK_THROWS_AS(dropout(flat, 0.5, key), ValueError);
    CHECK_THROWS_AS(dropout(flat * 2.0, 0.5, key), ValueError);
  }
}

TEST_CASE("sample layout: samples in another order are an error, also along dimension 0") {
  const Step step(4);
  const Variable x = ones({4, T, C});
  CHECK_THROWS_AS(dropout(flip(x, {0}), 0.5, key), ValueError);
  CHECK_THROWS_AS(dropout(roll(x, 1, 0), 0.5, key), ValueError);
  CHECK_THROWS_AS(dropout(index_select(x, 0, Tensor::from<int64_t>({3, 2, 1, 0})), 0.5, key), ValueError);
  CHECK_NOTHROW(dropout(flip(x, {1}), 0.5, key));
  // Parts of the samples may be joined in another order.
  CHECK_THROWS_AS(dropout(cat({narrow(x, 0, 2, 2), narrow(x, 0, 0, 2)}, 0), 0.5, key), ValueError);
  CHECK_THROWS_AS(dropout(cat({slice(x, 0, 1, 4, 2), slice(x, 0, 0, 4, 2)}, 0), 0.5, key), ValueError);
  const std::vector<Variable> halves = split(x, 2, 0), samples = unbind(x, 0);
  CHECK_THROWS_AS(dropout(cat({halves[1], halves[0]}, 0), 0.5, key), ValueError);
  CHECK_THROWS_AS(dropout(stack({samples[3], samples[2], samples[1], samples[0]}, 0), 0.5, key), ValueError);
  const Variable square = ones({4, 4, C});
  CHECK_THROWS_AS(dropout(stack({select(square, 0, 1), select(square, 0, 0)}, 0), 0.5, key), ValueError);
  CHECK_NOTHROW(dropout(stack({select(square, 1, 1), select(square, 1, 0)}, 1), 0.5, key));
  // What is right again may be declared.
  const Variable joined = cat({narrow(x, 0, 0, 2), narrow(x, 0, 2, 2)}, 0);
  set_sample_layout(joined, samples_along(0));
  CHECK(same(dropout(joined, 0.5, key), reference(4)));
  // Parts along another dimension keep the samples.
  CHECK(same(dropout(cat({narrow(x, 1, 0, 2), narrow(x, 1, 2, T - 2)}, 1), 0.5, key), reference(4)));
}
