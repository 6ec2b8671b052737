#include "tensor/overlap.h"

#include <doctest/doctest.h>

#include <set>

#include "tensor/elementwise/update_rules.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/embedding_add.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/layers/activation_linear.h"
#include "tensor/ops/layers/attention.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/training/multi_tensor.h"
#include "tensor/ops/training/optimizer_update.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

Tensor counting(const Shape& shape, DType dtype = f32) {
  return filled(shape, dtype, [](int64_t i) { return static_cast<double>(i % 251); });
}

/// The addresses of all elements; fewer than elements where some overlap each other.
std::set<const void*> addresses(const Tensor& x) {
  std::set<const void*> all;
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t at = 0, rest = i;
    for (int d = x.ndim() - 1; d >= 0; --d) {
      at += rest % x.shape()[d] * x.strides()[d];
      rest /= x.shape()[d];
    }
    all.insert(x.data<float>() + at);
  }
  return all;
}

bool share_address(const Tensor& a, const Tensor& b) {
  const auto of_b = addresses(b);
  for (const void* address : addresses(a))
    if (of_b.contains(address)) return true;
  return false;
}

/// A window of three dimensions onto 64 elements, the same on every machine.
Tensor scattered_window(const Tensor& storage, uint64_t seed, const Strides* strides = nullptr) {
  const auto draw = [&seed](int64_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(seed >> 33) % limit;
  };
  Shape shape{1 + draw(4), 1 + draw(4), 1 + draw(3)};
  const Strides given = strides ? *strides : Strides{draw(12), draw(7), 1 + draw(3)};
  int64_t span = 1;
  for (int i = 0; i < 3; ++i) span += (shape[i] - 1) * given[i];
  return storage.as_strided(shape, given, draw(64 - std::min<int64_t>(span, 63)));
}

/// Checks that an operation gives the same result with `alias`, which overlaps the target, as with copies.
void check_overlap(const Tensor& target, const Tensor& alias,
                   const std::function<void(const Tensor& target, const Tensor& operand)>& op) {
  const Tensor expected = target.clone();
  op(expected, alias.clone());
  op(target, alias);
  CHECK(elements(target) == elements(expected));
}

}  // namespace

TEST_CASE("overlap: the same answer as from a comparison of all addresses") {
  const Tensor storage = Tensor::zeros({64}, f32);
  int overlapping = 0, apart = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Tensor a = scattered_window(storage, 2 * seed), b = scattered_window(storage, 2 * seed + 1);
    CHECK(overlaps_itself(a) == (static_cast<int64_t>(addresses(a).size()) < a.numel()));
    if (overlap_of(a, b) == Overlap::none) CHECK_FALSE(share_address(a, b));
    const Tensor like_a = scattered_window(storage, 2 * seed + 1, &a.strides());
    const bool share = share_address(a, like_a);
    CHECK((overlap_of(a, like_a) != Overlap::none) == share);
    (share ? overlapping : apart)++;
  }
  CHECK(overlapping > 100);
  CHECK(apart > 100);
}

TEST_CASE("overlap: the same elements, shifted ones, columns side by side, two storages over one memory") {
  const Tensor x = counting({6, 6});
  CHECK(overlap_of(x, x) == Overlap::same);
  CHECK(overlap_of(x, x.view({6, 1, 6}).squeeze(1)) == Overlap::same);
  CHECK(overlap_of(x, x.transpose(0, 1)) == Overlap::partial);
  CHECK(overlap_of(x.slice(0, 0, 3), x.slice(0, 3, 6)) == Overlap::none);
  CHECK(overlap_of(x.slice(1, 0, 2), x.slice(1, 2, 6)) == Overlap::none);
  CHECK(overlap_of(x.slice(1, 0, 3), x.slice(1, 2, 5)) == Overlap::partial);
  CHECK(overlap_of(x.slice(1, 0, 6, 2), x.slice(1, 1, 6, 2)) == Overlap::none);
  CHECK(overlap_of(x, x.clone()) == Overlap::none);
  CHECK(overlap_of(x.to(meta()), x.to(meta())) == Overlap::none);
  CHECK(overlap_of(x.slice(0, 0, 0), x) == Overlap::none);
  const auto again = Storage::wrap(x.raw_data(), x.nbytes(), cpu(), {});
  CHECK(overlap_of(x, Tensor::over(again, f32, {6, 6}, {6, 1})) == Overlap::same);
  CHECK(overlap_of(x, Tensor::over(again, f32, {5, 6}, {6, 1}, 6)) == Overlap::partial);
  CHECK(overlap_of(x, Tensor::over(again, bf16, {6, 6}, {6, 1})) == Overlap::partial);
}

TEST_CASE("copy_from: overlapping values are copied as they were before") {
  for (int threads : {1, 3}) {
    const int before = num_threads();
    set_num_threads(threads);
    for (int64_t n : {3, 64, 700}) {
      const Tensor square = counting({n, n});
      const Tensor transposed = square.transpose(0, 1).clone();
      square.copy_from(square.transpose(0, 1));
      CHECK(same_bits(square, transposed));
    }
    // A shift by one element, up and down: the ranges of two threads would overlap in a contiguous copy.
    const int64_t n = 1 << 21;
    for (int64_t to : {0, 1}) {
      const Tensor line = counting({n + 1});
      const Tensor shifted = line.narrow(0, 1 - to, n).clone();
      line.narrow(0, to, n).copy_from(line.narrow(0, 1 - to, n));
      CHECK(same_bits(line.narrow(0, to, n).clone(), shifted));
    }
    set_num_threads(before);
  }
  const Tensor x = counting({4, 4});
  const Tensor before = x.clone();
  x.copy_from(x);
  CHECK(same_bits(x, before));
  CHECK(x.version() == 1);
}

TEST_CASE("a target with elements that overlap each other is refused with the parameter's name") {
  const Tensor wide = counting({1, 4}).expand({3, 4}), window = counting({8}).as_strided({3, 3}, {2, 1}, 0);
  const Tensor kept = wide.clone();
  for (const Tensor& out : {wide, window}) {
    const Tensor like = Tensor::zeros(out.shape(), f32);
    CHECK_THROWS_WITH_AS(out.copy_from(like), doctest::Contains("copy_from"), ValueError);
    CHECK_THROWS_WITH_AS(out.zero(), doctest::Contains("zero"), ValueError);
    CHECK_THROWS_WITH_AS(ops::fill_(out, 1), doctest::Contains("fill_"), ValueError);
    CHECK_THROWS_WITH_AS(ops::fill_uniform(out, 1), doctest::Contains("fill_uniform"), ValueError);
    CHECK_THROWS_WITH_AS(ops::add_(out, like), doctest::Contains("add"), ValueError);
    CHECK_THROWS_WITH_AS(ops::mul_(out, 2), doctest::Contains("mul"), ValueError);
    CHECK_THROWS_WITH_AS(ops::unary_(UnaryOp::neg, out), doctest::Contains("neg"), ValueError);
    CHECK_THROWS_WITH_AS(ops::addcmul_(out, like, like), doctest::Contains("addcmul_"), ValueError);
    CHECK_THROWS_WITH_AS(ops::cast_out(like, out), doctest::Contains("cast"), ValueError);
    const Tensor rows = Tensor::from<int64_t>({0, 1, 0}), ids = Tensor::zeros(out.shape(), i64);
    CHECK_THROWS_WITH_AS(ops::index_add_out(out, 0, rows, like), doctest::Contains("index_add"), ValueError);
    CHECK_THROWS_WITH_AS(ops::scatter_add_out(out, 0, ids, like), doctest::Contains("scatter_add"),
                         ValueError);
    CHECK_THROWS_WITH_AS(ops::embedding_accumulate(out, like, rows),
                         doctest::Contains("embedding_accumulate"), ValueError);
    const Tensor a = Tensor::zeros({3, 2}, f32), b = Tensor::zeros({2, out.size(1)}, f32);
    CHECK_THROWS_WITH_AS(ops::matmul_out(out, a, b), doctest::Contains("matmul_out"), ValueError);
    CHECK_THROWS_WITH_AS(ops::matmul_accumulate(out, a, b), doctest::Contains("matmul_accumulate"),
                         ValueError);
    const Tensor list[] = {Tensor::zeros({2}, f32), out};
    CHECK_THROWS_WITH_AS(ops::clamp_in_place(list, 1), doctest::Contains("clamp_in_place"), ValueError);
    CHECK_THROWS_WITH_AS(ops::zero_in_place(list), doctest::Contains("zero_in_place"), ValueError);
    CHECK_THROWS_WITH_AS(ops::scale_in_place(list, Tensor::scalar(2.0)), doctest::Contains("scale_in_place"),
                         ValueError);
  }
  CHECK(elements(wide) == elements(kept));
}

TEST_CASE("elementwise: an operand that overlaps the target is read as it was before") {
  const auto target = [] { return counting({40, 40}); };
  const Tensor x = target(), y = target(), z = target(), u = target(), c = target();
  check_overlap(x, x.transpose(0, 1), [](const Tensor& a, const Tensor& b) { ops::sub_(a, b); });
  check_overlap(y, y.select(0, 3), [](const Tensor& a, const Tensor& b) { ops::mul_(a, b); });
  check_overlap(z, z.transpose(0, 1), [](const Tensor& a, const Tensor& b) { ops::addcmul_(a, b, b, 0.5); });
  check_overlap(u, u.transpose(0, 1),
                [](const Tensor& a, const Tensor& b) { ops::unary_out(UnaryOp::neg, b, a); });
  check_overlap(c, c.transpose(0, 1), [](const Tensor& a, const Tensor& b) { ops::cast_out(b, a); });
  // Two storages over one memory, and half-wide elements over wide ones.
  const Tensor line = counting({100});
  const auto again = Storage::wrap(line.raw_data(), line.nbytes(), cpu(), {});
  const Tensor behind = Tensor::over(again, f32, {99}, {1}, 0), ahead = line.narrow(0, 1, 99);
  check_overlap(ahead, behind, [](const Tensor& a, const Tensor& b) { ops::add_(a, b); });
  const Tensor wide = counting({100}), narrow = Tensor::over(wide.storage(), bf16, {100}, {1});
  check_overlap(wide, narrow, [](const Tensor& a, const Tensor& b) { ops::cast_out(b, a); });
}

TEST_CASE("products: an output that overlaps an operand is the product of the operands as they were before") {
  for (MatmulBackend backend : {MatmulBackend::automatic, MatmulBackend::eigen}) {
    set_matmul_backend(backend);
    const Tensor other = filled({48, 48}, f32, scattered);
    for (const auto product : {ops::matmul_out, ops::matmul_accumulate}) {
      const Tensor first = filled({48, 48}, f32, scattered), second = first.clone(), third = first.clone();
      check_overlap(first, first, [&](const Tensor& out, const Tensor& a) { product(out, a, other); });
      check_overlap(second, second, [&](const Tensor& out, const Tensor& b) { product(out, other, b); });
      check_overlap(third, third.transpose(0, 1),
                    [&](const Tensor& out, const Tensor& b) { product(out, other, b); });
    }
  }
  set_matmul_backend(MatmulBackend::automatic);
}

TEST_CASE("indexing: rows that are added to the table that contains them, and an index inside its target") {
  const Tensor rows = Tensor::from<int64_t>({1, 2, 0, 2});
  const Tensor table = counting({4, 300}), line = counting({4, 300}), grid = counting({4, 4});
  const auto add = [&](const Tensor& a, const Tensor& b) { ops::index_add_out(a, 0, rows, b); };
  check_overlap(table, table, add);
  check_overlap(line, line, [&](const Tensor& a, const Tensor& b) { ops::embedding_accumulate(a, b, rows); });
  const Tensor ids = filled({4, 4}, i64, [](int64_t i) { return static_cast<double>(i * 7 % 4); });
  check_overlap(grid, grid.transpose(0, 1),
                [&](const Tensor& a, const Tensor& b) { ops::scatter_add_out(a, 1, ids, b); });
  const Tensor indices = Tensor::from<int64_t>({1, 1, 0, 0});
  check_overlap(indices, indices, [](const Tensor& a, const Tensor& index) {
    ops::index_add_out(a, 0, index, Tensor::from<int64_t>({5, 6, 7, 8}));
  });
}

TEST_CASE("several outputs at once: memory of an operand or of each other is refused") {
  const Tensor q = filled({1, 2, 5, 4}, f32, scattered), k = q.clone(), v = q.clone();
  const auto forward = ops::attention(q, k, v, {});
  const Tensor all = Tensor::empty({1, 5, 2, 12}, f32).transpose(1, 2);  // gradients side by side
  const auto backward = [&](const Tensor& dq, const Tensor& dk, const Tensor& dv) {
    ops::attention_backward(q, k, v, forward, q, {}, dq, dk, dv);
  };
  const Tensor dq = all.narrow(3, 0, 4), dk = all.narrow(3, 4, 4), dv = all.narrow(3, 8, 4);
  CHECK_NOTHROW(backward(dq, dk, dv));
  CHECK_THROWS_WITH_AS(backward(dq, dk, dk), doctest::Contains("attention_backward"), ValueError);
  CHECK_THROWS_AS(backward(dq, all.narrow(3, 2, 4), dv), ValueError);
  CHECK_THROWS_AS(backward(q, dk, dv), ValueError);

  const Tensor x = filled({3, 4}, f64, scattered), weight = filled({2, 4}, f64, scattered),
               dy = filled({3, 2}, f64, scattered);
  const auto linear = [&](const Tensor& dx, const Tensor& dw) {
    ops::activation_linear_backward(Activation::gelu, dy, x, weight, {.x = dx, .weight = dw});
  };
  CHECK_THROWS_WITH_AS(linear({}, weight), doctest::Contains("activation_linear_backward"), ValueError);
  CHECK_THROWS_AS(linear(x, x.narrow(0, 0, 2)), ValueError);
  CHECK_NOTHROW(linear(x.clone(), weight.clone()));

  const Tensor ids = Tensor::zeros({3, 1}, i64), gradient = filled({3, 1, 4}, f32, scattered);
  CHECK_THROWS_WITH_AS(ops::embedding_add_backward(gradient, ids, gradient.view({3, 4}), {}),
                       doctest::Contains("embedding_add_backward"), ValueError);
  const Tensor table = Tensor::zeros({3, 4}, f32);
  CHECK_THROWS_AS(ops::embedding_add_backward(gradient, ids, table, table.narrow(0, 0, 1)), ValueError);
}

TEST_CASE("lists: a tensor that is listed twice, or overlaps another, is refused") {
  const Tensor all = counting({12}), factor = Tensor::scalar(2.0);
  const auto range = [&](int64_t start, int64_t length) { return all.narrow(0, start, length); };
  const std::vector<Tensor> twice{range(8, 4), range(0, 4), range(8, 4)},
      overlapping{range(3, 4), range(0, 4)}, side_by_side{range(8, 4), Tensor(), range(4, 0), range(0, 8)};
  for (const auto& list : {twice, overlapping}) {
    CHECK_THROWS_WITH_AS(ops::scale_in_place(list, factor), doctest::Contains("scale_in_place"), ValueError);
    CHECK_THROWS_WITH_AS(ops::scale_and_find_nonfinite(list, factor),
                         doctest::Contains("scale_and_find_nonfinite"), ValueError);
    CHECK_THROWS_WITH_AS(ops::clamp_in_place(list, 1), doctest::Contains("clamp_in_place"), ValueError);
    CHECK_THROWS_WITH_AS(ops::zero_in_place(list), doctest::Contains("zero_in_place"), ValueError);
  }
  CHECK(elements(all) == elements(counting({12})));
  ops::scale_in_place(side_by_side, factor);
  CHECK(elements(all) == elements(ops::mul(counting({12}), 2)));
}

TEST_CASE("optimizer updates: a state that overlaps the parameter is refused with the parameter's name") {
  const Tensor lr = Tensor::scalar(0.1), all = Tensor::zeros({12}, f32);
  const ops::UpdateGroup<elementwise::SgdRule> group{
      .lr = lr, .rule = {.momentum = 0.9, .dampening = 0, .weight_decay = 0, .nesterov = false}};
  const auto update = [&](const Tensor& parameter, const Tensor& gradient, const Tensor& momentum) {
    const ops::UpdateItem item{.parameter = parameter,
                               .gradient = gradient,
                               .step = Tensor::scalar<int64_t>(0),
                               .state = {momentum, Tensor(), Tensor()},
                               .name = "blocks.0.weight"};
    ops::optimizer_update<elementwise::SgdRule>({&item, 1}, {&group, 1}, {});
  };
  const Tensor a = all.narrow(0, 0, 4), b = all.narrow(0, 4, 4), c = all.narrow(0, 8, 4);
  CHECK_NOTHROW(update(a, b, c));
  CHECK_NOTHROW(update(a, a, c));
  const auto refused = [](const char* roles) {
    return doctest::Contains(("sgd_update: parameter 'blocks.0.weight': its " + std::string(roles)).c_str());
  };
  CHECK_THROWS_WITH_AS(update(a, b, a), refused("value"), ValueError);
  CHECK_THROWS_WITH_AS(update(a, b, all.narrow(0, 2, 4)), refused("value"), ValueError);
  CHECK_THROWS_WITH_AS(update(a, all.narrow(0, 1, 4), c), refused("value"), ValueError);
  CHECK_THROWS_WITH_AS(update(a, c, c), refused("state"), ValueError);
}
