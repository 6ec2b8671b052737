#include "tensor/ops/matmul.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/cpu/gemm/onednn/gemm_onednn.h"
#include "tensor/profile/cost.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

/// The product in f64 by the definition, of operands with broadcast batch dimensions.
Tensor reference(const Tensor& a, const Tensor& b) {
  const Tensor left = to_f64(a.ndim() == 1 ? a.unsqueeze(0) : a);
  const Tensor right = to_f64(b.ndim() == 1 ? b.unsqueeze(1) : b);
  const auto leading = [](const Tensor& x) {
    return Shape(std::span<const int64_t>(x.shape().begin(), x.ndim() - 2));
  };
  const Shape batch = broadcast_shapes(leading(left), leading(right), "reference");
  const int64_t m = left.size(-2), k = left.size(-1), n = right.size(-1);
  const auto broadcast = [&](const Tensor& x) {
    Shape shape = batch;
    shape.push_back(x.size(-2));
    shape.push_back(x.size(-1));
    return x.expand(shape).contiguous();
  };
  const Tensor as = broadcast(left), bs = broadcast(right);
  Shape shape = batch;
  if (a.ndim() > 1) shape.push_back(m);
  if (b.ndim() > 1) shape.push_back(n);
  const Tensor out = Tensor::zeros(shape, f64);
  for (int64_t e = 0; e < batch.numel(); ++e)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t p = 0; p < k; ++p)
          out.data<double>()[(e * m + i) * n + j] +=
              as.data<double>()[(e * m + i) * k + p] * bs.data<double>()[(e * k + p) * n + j];
  return out;
}

std::vector<MatmulBackend> backends() {
  std::vector<MatmulBackend> all{MatmulBackend::automatic, MatmulBackend::packed, MatmulBackend::eigen};
  if (kernels::cpu::onednn_built()) all.push_back(MatmulBackend::onednn);
  return all;
}

struct BackendScope {
  explicit BackendScope(MatmulBackend backend) { set_matmul_backend(backend); }
  ~BackendScope() { set_matmul_backend(MatmulBackend::automatic); }
};

/// Sums of k products of values in [-1, 1] are off by at most about k units in the last place of the
/// accumulator, and, rounded once, by half a unit of the result's type.
double tolerance(DType dtype, int64_t k) {
  const double n = static_cast<double>(k) + 1;
  if (dtype == f64) return n * n * 0x1p-53;
  const double accumulated = n * n * 0x1p-24;
  if (dtype == f32) return accumulated;
  return accumulated + n * (dtype == f16 ? 0x1p-11 : 0x1p-8);
}

struct Shapes {
  Shape a, b;
};
const Shapes every_shape[] = {{{3, 4}, {4, 5}},
                              {{1, 1}, {1, 1}},
                              {{17, 19}, {19, 13}},
                              {{65, 128}, {128, 33}},
                              {{300, 7}, {7, 260}},
                              {{5, 600}, {600, 3}},
                              {{4}, {4}},
                              {{4}, {4, 3}},
                              {{3, 4}, {4}},
                              {{2, 3, 4}, {2, 4, 2}},
                              {{2, 3, 4}, {4, 5}},
                              {{3, 4}, {2, 4, 2}},
                              {{2, 1, 3, 4}, {3, 4, 2}},
                              {{2, 3, 4}, {4}},
                              {{4}, {2, 4, 3}},
                              {{5, 2, 9, 8}, {5, 2, 8, 7}},
                              {{1, 7}, {7, 1}},
                              {{2, 0}, {0, 3}},
                              {{0, 4}, {4, 3}},
                              {{0, 2, 3}, {0, 3, 2}}};

/// The same values in column-major order.
Tensor column_major(const Tensor& x) {
  return x.ndim() < 2 ? x : x.transpose(-1, -2).clone().transpose(-1, -2);
}

/// The same values with gaps between rows and between elements.
Tensor with_gaps(const Tensor& x) {
  Shape wide = x.shape();
  wide[x.ndim() - 1] *= 2;
  const Tensor gaps = random_tensor(wide, x.dtype(), 99).slice(-1, 0, wide.back(), 2);
  gaps.copy_from(x);
  return gaps;
}

/// The same values in rows with a stride larger than their length.
Tensor with_long_rows(const Tensor& x) {
  Shape wide = x.shape();
  wide[x.ndim() - 1] += 5;
  const Tensor rows = random_tensor(wide, x.dtype(), 98).narrow(-1, 2, x.size(-1));
  rows.copy_from(x);
  return rows;
}

}  // namespace

TEST_CASE("matmul: every shape, layout, dtype and backend gives the sum of products") {
  for (MatmulBackend backend : backends())
    for (DType dtype : {f64, f32, bf16, f16})
      for (const Shapes& shapes : every_shape) {
        BackendScope scope(backend);
        const Tensor a = random_tensor(shapes.a, dtype, 1), b = random_tensor(shapes.b, dtype, 2);
        const Tensor expected = reference(a, b);
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(shapes.a));
        CAPTURE(to_string(shapes.b));
        for (const Tensor& x : {a, column_major(a), with_gaps(a), with_long_rows(a)})
          for (const Tensor& y : {b, column_major(b), with_gaps(b), with_long_rows(b)}) {
            const Tensor product = ops::matmul(x, y);
            REQUIRE(product.shape() == expected.shape());
            REQUIRE(product.dtype() == dtype);
            CHECK(largest_difference(product, expected) <= tolerance(dtype, a.size(-1)));
          }
      }
}

TEST_CASE("matmul: out and accumulate write any layout, in f32 for narrow operands too") {
  for (MatmulBackend backend : backends())
    for (DType dtype : {f64, f32, bf16, f16})
      for (const Shapes& shapes : every_shape) {
        BackendScope scope(backend);
        const Tensor a = random_tensor(shapes.a, dtype, 3), b = random_tensor(shapes.b, dtype, 4);
        const Tensor expected = reference(a, b);
        for (DType out_dtype : {dtype, f32}) {
          if (dtype == f64 && out_dtype == f32) continue;
          const Tensor start = random_tensor(expected.shape(), out_dtype, 5);
          const Tensor sum = to_f64(start).clone();
          for (int64_t i = 0; i < sum.numel(); ++i) sum.data<double>()[i] += expected.data<double>()[i];
          const double bound = tolerance(out_dtype, a.size(-1) + 1);
          for (const Tensor& layout : {start.clone(), column_major(start)}) {
            const Tensor out = expected.ndim() == 0 ? start.clone() : layout.clone();
            CAPTURE(to_string(dtype));
            CAPTURE(to_string(shapes.a));
            CAPTURE(to_string(shapes.b));
            const uint64_t version = out.version();
            ops::matmul_accumulate(out, a, b);
            CHECK(out.version() > version);
            CHECK(largest_difference(out, sum) <= bound);
            ops::matmul_out(out, a, b);
            CHECK(largest_difference(out, expected) <= bound);
          }
          const Tensor columns = column_major(start);
          ops::matmul_accumulate(columns, a, b);
          CHECK(largest_difference(columns, sum) <= bound);
        }
      }
}

TEST_CASE("matmul: the same bits in every run at one number of threads, and close at another") {
  const Tensor a = random_tensor({130, 257}, f32, 6), b = random_tensor({257, 190}, f32, 7);
  const Tensor heads = random_tensor({9, 64, 32}, f32, 8), keys = random_tensor({9, 64, 32}, f32, 9);
  const int before = num_threads();
  for (MatmulBackend backend : backends()) {
    BackendScope scope(backend);
    set_num_threads(2);
    const Tensor first = ops::matmul(a, b), scores = ops::matmul(heads, keys.transpose(1, 2));
    for (int run = 0; run < 5; ++run) {
      CHECK(same_bits(ops::matmul(a, b), first));
      CHECK(same_bits(ops::matmul(heads, keys.transpose(1, 2)), scores));
    }
    // A single product may be cut in another way than in a batch.
    for (int64_t i = 0; i < 9; ++i)
      CHECK(largest_difference(ops::matmul(heads.select(0, i), keys.select(0, i).transpose(0, 1)),
                               to_f64(scores.select(0, i))) <= tolerance(f32, 32));
    set_num_threads(3);
    CHECK(largest_difference(ops::matmul(a, b), to_f64(first)) <= tolerance(f32, 257));
    set_num_threads(1);
    CHECK(largest_difference(ops::matmul(a, b), to_f64(first)) <= tolerance(f32, 257));
  }
  set_num_threads(before);
}

TEST_CASE("matmul: threads share a batch over any of its dimensions") {
  const int before = num_threads();
  for (const MatmulBackend backend : backends())
    for (const DType dtype : {f32, bf16})
      for (const Shape& batch : {Shape{1, 1}, Shape{1, 3}, Shape{2, 1, 5}, Shape{1, 2, 2}, Shape{7}}) {
        const BackendScope scope(backend);
        Shape left = batch, right = batch;
        for (const int64_t extent : {33, 70}) left.push_back(extent);
        for (const int64_t extent : {70, 65}) right.push_back(extent);
        const Tensor a = random_tensor(left, dtype, 31), b = random_tensor(right, dtype, 32);
        const Tensor expected = reference(a, b);
        for (const int threads : {1, 2, 3, 8}) {
          INFO(to_string(batch), " on ", threads, " threads");
          set_num_threads(threads);
          CHECK(largest_difference(ops::matmul(a, b), expected) <= tolerance(dtype, 70));
        }
      }
  set_num_threads(before);
}

TEST_CASE("matmul: a slice and its copy give the same product, to rounding") {
  // The rows of a third of (2, 5, 12) have stride 12: one product without a copy. The kernel that a backend
  // chooses may depend on the stride.
  const Tensor x = random_tensor({2, 5, 12}, f32, 10), w = random_tensor({4, 6}, f32, 11);
  const Tensor slice = x.narrow(-1, 4, 4);
  CHECK(largest_difference(ops::matmul(slice, w), to_f64(ops::matmul(slice.clone(), w))) <=
        tolerance(f32, 4));
}

TEST_CASE("linear: x W^T + b for any leading dimensions") {
  for (MatmulBackend backend : backends())
    for (DType dtype : {f64, f32, bf16, f16})
      for (const Shape& shape : {Shape{4}, Shape{6, 4}, Shape{2, 3, 4}, Shape{0, 4}}) {
        BackendScope scope(backend);
        const Tensor x = random_tensor(shape, dtype, 12), weight = random_tensor({5, 4}, dtype, 13),
                     bias = random_tensor({5}, dtype, 14);
        const Tensor product = reference(x, weight.transpose(0, 1));
        CHECK(largest_difference(ops::linear(x, weight), product) <= tolerance(dtype, 4));
        const Tensor shift = to_f64(bias), expected = product.clone();
        for (int64_t i = 0; i < expected.numel(); ++i)
          expected.data<double>()[i] += shift.data<double>()[i % 5];
        // The bias is added to the rounded product: one more rounding.
        CHECK(largest_difference(ops::linear(x, weight, bias), expected) <= 2 * tolerance(dtype, 5));
      }
  const Tensor nothing =
      ops::linear(Tensor::zeros({2, 0}, f32), Tensor::zeros({3, 0}, f32), Tensor::from<float>({1, 2, 3}));
  CHECK(same_bits(nothing, Tensor::from<float>({1, 2, 3, 1, 2, 3}, {2, 3})));
}

TEST_CASE("matmul: meta gives shapes, and every device counts two operations per multiply-add") {
  Cost cost;
  {
    CostScope scope(cost);
    const Tensor a = Tensor::empty({7, 2, 3, 4}, f32, meta());
    CHECK(ops::matmul(a, Tensor::empty({2, 4, 5}, f32, meta())).shape() == Shape{7, 2, 3, 5});
    CHECK(ops::matmul(a, Tensor::empty({4, 5}, f32, meta())).is_meta());
    CHECK_THROWS_AS(ops::matmul(a, Tensor::empty({4, 5}, f32)), DeviceError);
  }
  CHECK(cost.flops == 2 * (2 * 7 * 2 * 3 * 4 * 5));
  cost = {};
  {
    CostScope scope(cost);
    ops::linear(random_tensor({2, 3, 4}, f32, 1), random_tensor({5, 4}, f32, 2));
  }
  CHECK(cost.flops == 2 * 2 * 3 * 4 * 5);
}

TEST_CASE("matmul: errors name the operands that do not match") {
  const Tensor x = Tensor::zeros({2, 3}, f32);
  CHECK_THROWS_WITH_AS(
      ops::matmul(x, x),
      "matmul: the first operand has 3 columns, the second 2 rows; got (2, 3) f32 on cpu and "
      "(2, 3) f32 on cpu",
      ShapeError);
  CHECK_THROWS_AS(ops::matmul(x, Tensor::zeros({3, 2}, f64)), DTypeError);
  CHECK_THROWS_AS(ops::matmul(Tensor::zeros({2, 2}, i64), Tensor::zeros({2, 2}, i64)), DTypeError);
  CHECK_THROWS_AS(ops::matmul(Tensor::zeros({}, f32), x), ShapeError);
  CHECK_THROWS_AS(ops::matmul(Tensor::zeros({2, 4, 3}, f32), Tensor::zeros({3, 3, 4}, f32)), ShapeError);
  CHECK_THROWS_AS(ops::matmul_out(Tensor::zeros({2, 2}, f32), x, x.transpose(0, 1).unsqueeze(0)), ShapeError);
  CHECK_THROWS_AS(ops::matmul_out(Tensor::zeros({2, 2}, f64), x, x.transpose(0, 1)), DTypeError);
  CHECK_THROWS_AS(ops::matmul(Tensor(), x), ValueError);
  CHECK_THROWS_WITH_AS(ops::linear(Tensor::zeros({2, 128, 512}, f32), Tensor::zeros({3072, 768}, f32)),
                       "linear: input has 512 features, the weight (3072, 768) takes 768; x is (2, 128, 512) "
                       "f32 on cpu",
                       ShapeError);
  CHECK_THROWS_AS(ops::linear(x, Tensor::zeros({5, 3}, f32), Tensor::zeros({4}, f32)), ShapeError);
}
