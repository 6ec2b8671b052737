// Raw elementwise ops: broadcasting, promotion, layouts, in-place forms, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>

#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/promotion.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/threads/parallel.h"
#include "tests/support/error_text.h"

using namespace tessera;

namespace {

double at(const Tensor& x, int64_t i) {
  return ops::cast(x, f64).contiguous().data<double>()[i];
}

}  // namespace

TEST_CASE("binary: broadcasting as in NumPy, against a loop over indices") {
  const Tensor a = ops::arange(24, f32).view({2, 3, 4});
  for (const Shape& shape :
       {Shape{2, 3, 4}, Shape{4}, Shape{3, 1}, Shape{2, 1, 1}, Shape{1, 3, 4}, Shape{}, Shape{1}}) {
    const Tensor b = ops::add(ops::arange(shape.numel(), f32), 100).view(shape), wide = b.expand({2, 3, 4});
    for (const bool exchanged : {false, true}) {
      const Tensor y = exchanged ? ops::sub(b, a) : ops::sub(a, b);
      REQUIRE(y.shape() == Shape{2, 3, 4});
      for (int64_t i = 0; i < 24; ++i) CHECK(at(y, i) == (exchanged ? -1 : 1) * (at(a, i) - at(wide, i)));
    }
  }
}

TEST_CASE("binary: both operands broadcast, also along the innermost dimension") {
  const Tensor a = ops::arange(3, f64).view({3, 1}), b = ops::arange(2, f64).view({2, 1, 1});
  const Tensor y = ops::add(a.expand({3, 5}), b);
  REQUIRE(y.shape() == Shape{2, 3, 5});
  for (int64_t i = 0; i < 30; ++i) {
    const int64_t matrix = i / 15, row = i / 5 % 3;
    CHECK(at(y, i) == static_cast<double>(matrix + row));
  }
}

TEST_CASE("binary: transposed, strided and sliced operands") {
  const Tensor x = ops::arange(5000, f32).view({50, 100});
  const Tensor y =
      ops::mul(x.transpose(0, 1), x.slice(1, 0, 100, 2).transpose(0, 1).slice(0, 0, 50).select(0, 3));
  REQUIRE(y.shape() == Shape{100, 50});
  for (int64_t i = 0; i < 100; ++i)
    for (int64_t j = 0; j < 50; ++j)
      CHECK(at(y, i * 50 + j) == static_cast<float>(j * 100 + i) * static_cast<float>(j * 100 + 6));
}

TEST_CASE("binary: zero-size results") {
  CHECK(ops::add(Tensor::empty({0, 3}, f32), Tensor::empty({1, 3}, f32)).shape() == Shape{0, 3});
  CHECK(ops::exp(Tensor::empty({4, 0}, f64)).numel() == 0);
  CHECK(ops::less(Tensor::empty({0}, i64), 3).dtype() == boolean);
}

TEST_CASE("promotion: the table of the array API, kind by kind") {
  const DType all[] = {f64, f32, bf16, f16, i64, i32, u8, boolean};
  const auto kind = [](DType t) { return is_floating(t) ? 0 : is_integer(t) ? 1 : 2; };
  for (const DType a : all)
    for (const DType b : all) {
      if (kind(a) != kind(b)) {
        CHECK_THROWS_AS(ops::promote(a, b, "add"), DTypeError);
      } else {
        const DType expected = a == b ? a : size_of(a) == size_of(b) ? f32 : size_of(a) > size_of(b) ? a : b;
        CHECK(ops::promote(a, b, "add") == expected);
      }
    }
  CHECK(ops::add(ops::ones({2}, bf16), ops::ones({2}, f32)).dtype() == f32);
  CHECK(ops::add(ops::ones({2}, u8), ops::ones({2}, i64)).dtype() == i64);
  CHECK(contains(message_of<DTypeError>([] { ops::add(ops::ones({2}, i32), ops::ones({2}, f16)); }),
                 "cast(a, f16)"));
  CHECK(contains(message_of<DTypeError>([] { ops::mul(ops::ones({2}, i32), ops::ones({2}, boolean)); }),
                 "cast(b, i32)"));
}

TEST_CASE("binary: C++ scalars take the tensor's dtype") {
  CHECK(ops::add(ops::ones({2}, bf16), 0.5).dtype() == bf16);
  CHECK(at(ops::sub(3, ops::ones({2}, i32)), 0) == 2);
  CHECK(at(ops::div(1.0, ops::full({2}, 4, f32)), 1) == 0.25);
  CHECK(at(ops::greater(ops::arange(3), 1), 2) == 1);
  CHECK(at(ops::greater(ops::arange(3), 1), 1) == 0);
  CHECK_THROWS_AS(ops::add(ops::ones({2}, i64), 0.5), DTypeError);
  CHECK_THROWS_AS(ops::add(ops::ones({2}, u8), 300), ValueError);
  CHECK_THROWS_AS(ops::equal(ops::ones({2}, boolean), 1), DTypeError);
}

TEST_CASE("binary: integer arithmetic wraps and rounds down") {
  const Tensor a = Tensor::from<int32_t>({7, -7, 7, -7}), b = Tensor::from<int32_t>({2, 2, -2, -2});
  const Tensor quotient = ops::floor_divide(a, b), rest = ops::remainder(a, b);
  const int expected[] = {3, -4, -4, 3}, left[] = {1, 1, -1, -1};
  for (int i = 0; i < 4; ++i) {
    CHECK(at(quotient, i) == expected[i]);
    CHECK(at(rest, i) == left[i]);
    CHECK(at(ops::floor_divide(ops::cast(a, f64), ops::cast(b, f64)), i) == expected[i]);
    CHECK(at(ops::remainder(ops::cast(a, f32), ops::cast(b, f32)), i) == left[i]);
  }
  const Tensor largest = Tensor::from<int32_t>({std::numeric_limits<int32_t>::max()});
  CHECK(ops::add(largest, 1).item_i64() == std::numeric_limits<int32_t>::min());
  CHECK(at(ops::floor_divide(Tensor::from<uint8_t>({255}), Tensor::from<uint8_t>({255})), 0) == 1);
  CHECK(at(ops::remainder(Tensor::from<uint8_t>({254}), Tensor::from<uint8_t>({255})), 0) == 254);
  CHECK(contains(message_of<ValueError>([&] { ops::floor_divide(a, ops::sub(b, 2)); }), "element 0 is 0"));
  CHECK_THROWS_AS(ops::remainder(a, 0), ValueError);
  CHECK_THROWS_AS(ops::div(a, b), DTypeError);
}

TEST_CASE("binary: errors name the operation and both operands") {
  const std::string shapes = message_of<ShapeError>([] {
    ops::add(ops::ones({2, 3}, f32), ops::ones({4}, f32));
  });
  CHECK(contains(shapes, "add"));
  CHECK(contains(shapes, "(2, 3)"));
  CHECK(contains(shapes, "(4,)"));
  CHECK_THROWS_AS(ops::bitwise_and(ops::ones({2}, f32), ops::ones({2}, f32)), DTypeError);
  CHECK_THROWS_AS(ops::exp(ops::arange(3)), DTypeError);
  CHECK_THROWS_AS(ops::neg(ops::ones({2}, boolean)), DTypeError);
  CHECK_THROWS_AS(ops::add(Tensor(), ops::ones({2}, f32)), ValueError);
}

TEST_CASE("in place: overlapping operands are read as they were before") {
  const Tensor x = ops::arange(3000, f32);
  ops::add_(x.slice(0, 1, 3000), x.slice(0, 0, 2999));
  for (int64_t i = 1; i < 3000; ++i) CHECK(at(x, i) == static_cast<double>(2 * i - 1));
  const Tensor square = ops::arange(9, f64).view({3, 3});
  ops::add_(square, square.transpose(0, 1));
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) CHECK(at(square, 3 * i + j) == 4 * (i + j));
}

TEST_CASE("in place: the dtype stays, the version is raised, broadcast outputs are refused") {
  const Tensor x = ops::ones({4}, bf16);
  const uint64_t before = x.version();
  ops::add_(x, ops::full({4}, 0.5, f32));
  CHECK(x.version() == before + 1);
  CHECK(x.dtype() == bf16);
  CHECK(at(x, 3) == 1.5);
  CHECK_THROWS_AS(ops::add_(ops::ones({4}, i32), ops::ones({4}, f32)), DTypeError);
  CHECK_THROWS_AS(ops::add_(ops::ones({4}, f32), ops::ones({2, 4}, f32)), ShapeError);
  CHECK_THROWS_AS(ops::add_(ops::ones({1}, f32).expand({4}), 1), ValueError);
  const Tensor out = Tensor::empty({2, 3}, f64);
  ops::binary_out(BinaryOp::mul, ops::full({2, 1}, 2, f32), ops::full({3}, 3, f32),
                  out.transpose(0, 1).transpose(0, 1));
  CHECK(at(out, 5) == 6);
  ops::unary_(UnaryOp::neg, out);
  CHECK(at(out, 0) == -6);
  ops::addcmul_(x, ops::full({}, 2, f32), ops::full({4}, 3, f32));
  CHECK(at(x, 0) == 7.5);
}

TEST_CASE("ternary: where, clamp, lerp, addcmul, addcdiv") {
  const Tensor x = Tensor::from<float>({-2, -0.5f, 0.5f, 2}), nan = ops::full({4}, std::nan(""), f32);
  const Tensor chosen = ops::where(ops::greater(x, 0), x, 0.0);
  for (int i = 0; i < 4; ++i) CHECK(at(chosen, i) == std::max(0.0, at(x, i)));
  const Tensor bounded = ops::clamp(x, -1, 1.0);
  for (int i = 0; i < 4; ++i) CHECK(at(bounded, i) == std::fmin(std::fmax(at(x, i), -1), 1));
  CHECK(std::isnan(at(ops::clamp(nan, -1, 1), 0)));
  CHECK(at(ops::clamp(x, std::nullopt, 0.0), 3) == 0);
  CHECK_THROWS_AS(ops::clamp(x, std::nullopt, std::nullopt), ValueError);
  CHECK(at(ops::lerp(x, ops::full({4}, 2, f32), 0.5), 0) == 0);
  CHECK(at(ops::addcmul(x, x, x, 0.5), 0) == 0);
  CHECK(at(ops::addcdiv(x, x, ops::full({}, 4, f32), 2), 3) == 3);
  CHECK(at(ops::masked_fill(x, ops::less(x, 0), -9), 1) == -9);
  CHECK_THROWS_AS(ops::where(x, x, x), DTypeError);
}

TEST_CASE("cast: rounding, clamping, truth") {
  const Tensor x = Tensor::from<double>({-1.9, 1.9, 300.7, -1e30, 1e30, std::nan(""), 0.0});
  const double integers[] = {-1, 1, 300, -2147483648.0, 2147483647.0, 0, 0},
               bytes[] = {0, 1, 255, 0, 255, 0, 0};
  const double truth[] = {1, 1, 1, 1, 1, 1, 0};
  for (int i = 0; i < 7; ++i) {
    CHECK(at(ops::cast(x, i32), i) == integers[i]);
    CHECK(at(ops::cast(x, u8), i) == bytes[i]);
    CHECK(at(ops::cast(x, boolean), i) == truth[i]);
  }
  CHECK(ops::cast(x, i64).data<int64_t>()[3] == std::numeric_limits<int64_t>::min());
  CHECK(ops::cast(ops::cast(x, f32), i64).data<int64_t>()[4] == 0x7fffff8000000000ll);
  CHECK(ops::cast(x, f64).shares_storage(x));
}

TEST_CASE("cast: every 16-bit float converts to f32 and back, as in tensor/types/float_types.h") {
  const auto check = [](auto zero, DType dtype) {
    using Half = decltype(zero);
    const Tensor all = Tensor::empty({65536}, dtype);
    for (int i = 0; i < 65536; ++i) all.data<Half>()[i].bits = static_cast<uint16_t>(i);
    const Tensor wide = ops::cast(all, f32), back = ops::cast(wide, dtype);
    int wrong = 0;
    for (int i = 0; i < 65536; ++i) {
      const float expected = static_cast<float>(all.data<Half>()[i]), got = wide.data<float>()[i];
      // bf16's subnormals are f32's: computing may flush them, moving may not.
      wrong += std::isnan(expected)
                   ? !std::isnan(got)
                   : __builtin_bit_cast(uint32_t, expected) != __builtin_bit_cast(uint32_t, got);
      wrong += !std::isnan(expected) && back.data<Half>()[i].bits != i;
    }
    CHECK(wrong == 0);
    // Halfway cases and other values that round, against the scalar conversion.
    const Tensor fine = Tensor::empty({200000}, f32);
    for (int i = 0; i < 200000; ++i)
      fine.data<float>()[i] =
          __builtin_bit_cast(float, static_cast<uint32_t>(i) * 21473u + (i % 3 ? 0u : 0x1000u));
    const Tensor narrow = ops::cast(fine, dtype);
    for (int i = 0; i < 200000; ++i) {
      const float x = fine.data<float>()[i];
      if (std::fabs(x) < std::numeric_limits<float>::min()) continue;
      const Half expected(x);
      wrong += std::isnan(x) ? !std::isnan(static_cast<float>(narrow.data<Half>()[i]))
                             : narrow.data<Half>()[i].bits != expected.bits;
    }
    CHECK(wrong == 0);
  };
  check(float16{}, f16);
  check(bfloat16{}, bf16);
}

TEST_CASE("creation: arange, linspace, full, one_hot") {
  const Tensor down = ops::arange(5, -1, -2, i32);
  REQUIRE(down.shape() == Shape{3});
  CHECK(at(down, 2) == 1);
  CHECK(ops::arange(0.0, 1.0, 0.1, f64).numel() == 10);
  CHECK(ops::arange(3, 3, 1, i64).numel() == 0);
  CHECK_THROWS_AS(ops::arange(0, 3, 0, i64), ValueError);
  CHECK_THROWS_AS(ops::arange(0.5, 3, 1, i64), DTypeError);
  const Tensor line = ops::linspace(-1, 1, 7, f64);
  for (int i = 0; i < 7; ++i) CHECK(at(line, i) == -at(line, 6 - i));
  CHECK(at(line, 0) == -1);
  CHECK(at(ops::full({2, 2}, true, boolean), 3) == 1);
  const Tensor hot = ops::one_hot(Tensor::from<int64_t>({2, 0}), 3, f32);
  CHECK(hot.shape() == Shape{2, 3});
  for (int i = 0; i < 6; ++i) CHECK(at(hot, i) == (i == 2 || i == 3 ? 1 : 0));
  CHECK(contains(message_of<IndexError>([] {
                   ops::one_hot(Tensor::from<int64_t>({2, 3}), 3);
                 }),
                 "id 3 at position 1"));
}

TEST_CASE("meta: shape and dtype, no values") {
  const Tensor m = Tensor::empty({2, 1}, bf16, meta());
  CHECK(ops::add(m, Tensor::empty({3}, f32, meta())).shape() == Shape{2, 3});
  CHECK(ops::add(m, Tensor::empty({3}, f32, meta())).dtype() == f32);
  CHECK(ops::gelu(m).is_meta());
  CHECK(ops::less(m, 1).dtype() == boolean);
  CHECK(ops::where(Tensor::empty({4, 1, 1}, boolean, meta()), m, 0.0).shape() == Shape{4, 2, 1});
  CHECK(ops::clamp(m, 0, 1).is_meta());
  CHECK(ops::arange(7, i64, meta()).shape() == Shape{7});
  CHECK_THROWS_AS(ops::add(m, Tensor::empty({2, 2, 3}, i64, meta())), DTypeError);
}

TEST_CASE("denormal results flush in every computing thread") {
  const Tensor tiny = ops::full({1 << 18}, 1e-30, f32), half = ops::full({1 << 18}, 0x1p-126, f32);
  const Tensor product = ops::mul(tiny, 1e-12), smaller = ops::mul(half, 0.5),
               root = ops::exp(ops::full({1 << 18}, -100.0, f32));
  for (int64_t i = 0; i < product.numel(); i += 997) {
    CHECK(product.data<float>()[i] == 0);
    CHECK(smaller.data<float>()[i] == 0);
    CHECK(root.data<float>()[i] == 0);
  }
}
