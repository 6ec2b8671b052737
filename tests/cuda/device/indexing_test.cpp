// Indexing, sorting and scanning on a CUDA device, which TESSERA_TEST_DEVICE names: the CPU's results, at
// sizes that take each of the kernels' ways.
#include <cmath>
#include <limits>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/indexing/embedding_bag.h"
#include "autograd/functions/reduction.h"
#include "tensor/index.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/indexing/advanced_indexing.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/indexing/running_extreme.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/shaping.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr DType dtypes[] = {f64, f32, bf16, f16, i64, i32, u8, boolean};

/// Values of which many are equal, with NaNs, infinities and zeros of both signs in floating dtypes.
Tensor many_equal(const Shape& shape, DType dtype) {
  manual_seed(5);
  const Tensor numbers = randint(0, 23, shape);
  if (!is_floating(dtype)) return ops::cast(numbers, dtype);
  const Tensor x = ops::cast(ops::sub(numbers, Scalar(11)), f64).contiguous();
  double* const values = x.data<double>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (values[i] == 5) values[i] = NAN;
    if (values[i] == 6) values[i] = -NAN;
    if (values[i] == 7) values[i] = -0.0;
    if (values[i] == 8) values[i] = std::numeric_limits<double>::infinity();
  }
  return ops::cast(x, dtype);
}

void check_sorted(const ops::Sorted& here, const ops::Sorted& there) {
  CHECK(have_same_bits(here.values, there.values));
  CHECK(have_same_bits(here.indices, there.indices));
}

}  // namespace

TEST_CASE("cuda: sorts of lines of every length are the CPU's, in every dtype") {
  const Device device = device_under_test();
  for (const DType dtype : dtypes) {
    CAPTURE(dtype);
    const Tensor x = many_equal({3, 70, 2}, dtype), y = x.to(device);
    for (const bool descending : {false, true})
      for (const int64_t dim : {0, 1, 2})
        check_sorted(ops::sort(x, dim, descending), ops::sort(y, dim, descending));
    check_sorted(ops::sort(x.transpose(0, 1), 0), ops::sort(y.transpose(0, 1), 0));
    check_sorted(ops::topk(x, 5, 1), ops::topk(y, 5, 1));
  }
  for (const int64_t n : {1, 2, 513, 2048}) {
    const Tensor x = many_equal({2, n}, f32);
    check_sorted(ops::sort(x), ops::sort(x.to(device)));
  }
  CHECK(ops::sort(Tensor::empty({0, 4}, f32, device)).values.numel() == 0);
}

TEST_CASE("cuda: long lines are sorted by radix, and their first few by rounds") {
  const Device device = device_under_test();
  for (const DType dtype : {f64, f32, f16, i64, u8}) {
    CAPTURE(dtype);
    const Tensor x = many_equal({2, 5000}, dtype), y = x.to(device);
    check_sorted(ops::sort(x, 1, true), ops::sort(y, 1, true));
    check_sorted(ops::topk(x, 200, 1), ops::topk(y, 200, 1));
    check_sorted(ops::topk(x, 3, 1, false), ops::topk(y, 3, 1, false));
  }
  const Tensor line = many_equal({2, 2100}, i32);
  check_sorted(ops::sort(line.transpose(0, 1), 0), ops::sort(line.to(device).transpose(0, 1), 0));
}

TEST_CASE("cuda: running sums and extremes are the CPU's") {
  const Device device = device_under_test();
  for (const DType dtype : dtypes) {
    CAPTURE(dtype);
    for (const Shape& shape :
         {Shape{3, 1100}, Shape{40, 33, 3}, Shape{1, 20000}, Shape{300, 5}, Shape{9, 260}}) {
      const Tensor x = many_equal(shape, dtype), y = x.to(device);
      for (int64_t dim = 0; dim < x.ndim(); ++dim)
        for (const bool largest : {true, false})
          CHECK(have_same_bits(ops::running_extreme(x, dim, largest), ops::running_extreme(y, dim, largest)));
      // Sums of small integers are exact in any order.
      const Tensor numbers = ops::cast(randint(0, 7, shape), dtype), there = numbers.to(device);
      for (int64_t dim = 0; dim < x.ndim(); ++dim)
        CHECK(have_same_bits(ops::cumsum(numbers, dim), ops::cumsum(there, dim)));
      const int64_t shorter = x.shape()[1] - 1;  // rows with gaps
      CHECK(have_same_bits(ops::cumsum(numbers.narrow(1, 1, shorter), 1),
                           ops::cumsum(there.narrow(1, 1, shorter), 1)));
    }
  }
}

TEST_CASE("cuda: positions of extremes are the CPU's, with NaNs and equal values") {
  const Device device = device_under_test();
  for (const DType dtype : dtypes) {
    CAPTURE(dtype);
    for (const Shape& shape : {Shape{3, 1100}, Shape{40, 33, 3}, Shape{1, 40000}}) {
      const Tensor x = many_equal(shape, dtype), y = x.to(device);
      for (int64_t dim = 0; dim < x.ndim(); ++dim) {
        CHECK(have_same_bits(ops::argmax(x, dim, false), ops::argmax(y, dim, false)));
        CHECK(have_same_bits(ops::argmin(x, dim, true), ops::argmin(y, dim, true)));
      }
    }
  }
}

TEST_CASE("cuda: elements that are mirrored or left out are the CPU's") {
  const Device device = device_under_test();
  for (const DType dtype : dtypes) {
    const Tensor x = many_equal({3, 17, 16}, dtype), y = x.to(device);
    CHECK(have_same_bits(ops::flip(x, {0, 2}), ops::flip(y, {0, 2})));
    CHECK(have_same_bits(ops::flip(x.transpose(0, 1), {1}), ops::flip(y.transpose(0, 1), {1})));
    for (const int64_t diagonal : {-20, -1, 0, 3, 20}) {
      CHECK(have_same_bits(ops::tril(x, diagonal), ops::tril(y, diagonal)));
      CHECK(have_same_bits(ops::triu(x.narrow(2, 0, 15), diagonal), ops::triu(y.narrow(2, 0, 15), diagonal)));
    }
  }
}

TEST_CASE("cuda: masks give the CPU's positions and elements, at every number of them") {
  const Device device = device_under_test();
  manual_seed(3);
  for (const int64_t n : {0, 1, 255, 4096, 4097, 20011}) {
    for (const double share : {0.0, 0.01, 0.5, 1.0}) {
      const Tensor mask = ops::less(rand({n}, f32), Scalar(share)), there = mask.to(device);
      CHECK(have_same_bits(ops::nonzero(mask), ops::nonzero(there)));
      const Tensor x = ops::arange(n, i64);
      CHECK(have_same_bits(ops::masked_select(x, mask), ops::masked_select(x.to(device), there)));
    }
  }
  const Tensor mask = ops::less(rand({9, 11, 5}), Scalar(0.3)), there = mask.to(device);
  CHECK(have_same_bits(ops::nonzero(mask), ops::nonzero(there)));
  CHECK(have_same_bits(ops::nonzero(mask.narrow(2, 1, 3)), ops::nonzero(there.narrow(2, 1, 3))));
}

TEST_CASE("cuda: index tensors read, write and add as on the CPU, the last of equal positions stays") {
  const Device device = device_under_test();
  manual_seed(7);
  for (const int64_t count : {1, 40, 3000}) {
    const Tensor rows = randint(-20, 20, {count}), columns = randint(0, 12, {count});
    const Index here[] = {rows, columns}, there[] = {rows.to(device), columns.to(device)};
    for (const DType dtype : dtypes) {
      CAPTURE(dtype);
      CAPTURE(count);
      const Tensor x = many_equal({20, 12, 8}, dtype), y = x.to(device);
      CHECK(have_same_bits(x.index(here), y.index(there)));
      const Tensor value = many_equal({count, 8}, dtype);
      const Tensor x_put = x.clone(), y_put = y.clone();
      x_put.index_put_(here, value);
      y_put.index_put_(there, value.to(device));
      CHECK(have_same_bits(x_put, y_put));
      if (dtype == u8 || dtype == boolean || is_floating(dtype)) continue;
      x_put.index_put_(here, value, true);
      y_put.index_put_(there, value.to(device), true);
      CHECK(have_same_bits(x_put, y_put));
    }
    const Index by_row[] = {rows}, by_row_there[] = {rows.to(device)};
    const Tensor x = rand({20, 12, 8}), y = x.to(device);
    CHECK(have_same_bits(x.index(by_row), y.index(by_row_there)));
    CHECK(have_same_bits(x.transpose(1, 2).index(by_row), y.transpose(1, 2).index(by_row_there)));
  }
}

TEST_CASE("cuda: bags of rows are the CPU's, with padding and empty bags") {
  const Device device = device_under_test();
  manual_seed(9);
  const Tensor ids = randint(0, 30, {200}), weight = randn({30, 20});
  const Tensor offsets = Tensor::from<int64_t>({0, 0, 7, 8, 90, 90, 200});
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max})
    for (const int64_t padding : {-1, 4}) {
      const EmbeddingBagOptions options{.mode = mode, .padding_idx = padding};
      const Variable w = Variable::leaf(weight), v = Variable::leaf(weight.to(device));
      const Variable a = embedding_bag(ids, w, offsets, options);
      const Variable b = embedding_bag(ids.to(device), v, offsets.to(device), options);
      CHECK(have_same_bits(a.value(), b.value()));
      sum(a * a).backward();
      sum(b * b).backward();
      const Tensor difference = ops::sub(w.grad().value(), v.grad().value().to(cpu()));
      CHECK(ops::max(ops::mul(difference, difference)).item() < 1e-8);
    }
}
