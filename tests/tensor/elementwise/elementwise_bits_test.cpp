// An element's result does not depend on position, length and alignment of the array, or instruction set.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/unary.h"

using namespace tessera;
namespace kernels_cpu = tessera::kernels::cpu;

namespace {

/// Values over the range of T, with special values among them.
template <class T>
std::vector<T> inputs(size_t n, uint64_t seed) {
  std::vector<T> values(n);
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    if constexpr (sizeof(T) == 1) {
      values[i] = static_cast<T>(seed >> 56);
    } else if constexpr (std::is_integral_v<T>) {
      values[i] = static_cast<T>(static_cast<int64_t>(seed) >> (40 + seed % 20));
    } else {
      const double u = static_cast<double>(static_cast<int64_t>(seed)) * 0x1p-63;
      values[i] = static_cast<T>(i % 4 == 0 ? std::ldexp(u, static_cast<int>(seed % 200) - 100) : u * 12);
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e30, -1e30, 1e-30, 88.8, -104.0};
    for (size_t i = 0; i < std::size(special) && i * 7 < n; ++i) values[i * 7] = static_cast<T>(special[i]);
  }
  return values;
}

/// The bits of one result, the same for every NaN.
template <class T>
uint64_t bits(T value) {
  if (value != value) return ~0ull;
  uint64_t out = 0;
  std::memcpy(&out, &value, sizeof value);
  return out;
}

/// Calls `compute(offset, length, output)` for every offset 0..63 of the inputs, and counts the elements that
/// differ from `expected`.
template <class In, class Out, class Compute>
int64_t differences_over_offsets(const std::vector<Out>& expected, Compute compute) {
  const int64_t n = static_cast<int64_t>(expected.size());
  int64_t wrong = 0;
  std::vector<Out> out(n + 64);
  for (int64_t offset = 0; offset < 64; ++offset)
    for (const int64_t length : {int64_t{1}, 5 + offset, n - offset}) {
      compute(offset, length, out.data() + offset / 2);
      for (int64_t i = 0; i < length; ++i) wrong += bits(out[offset / 2 + i]) != bits(expected[offset + i]);
    }
  return wrong;
}

std::vector<kernels_cpu::Isa> available() {
  std::vector<kernels_cpu::Isa> sets;
  for (const auto isa : {kernels_cpu::Isa::baseline, kernels_cpu::Isa::avx2, kernels_cpu::Isa::avx512})
    if (kernels_cpu::isa_available(isa)) sets.push_back(isa);
  return sets;
}

/// Calls `f` under every instruction set of kernels that this processor has, one after another.
template <class F>
void for_each_isa(F f) {
  for (const auto isa : available()) {
    const kernels_cpu::IsaScope scope(isa);
    CAPTURE(kernels_cpu::name(isa));
    f();
  }
}

constexpr int64_t count = 300;

template <class In, class Out>
void check_unary(UnaryOp op, DType type) {
  const std::vector<In> x = inputs<In>(count, 1 + static_cast<int>(op));
  std::vector<Out> expected(count);
  bool first = true;
  for_each_isa([&] {
    using namespace tessera::kernels::cpu;
    const UnaryBlock block = TESSERA_PER_ISA(unary_block)(op, type);
    REQUIRE(static_cast<bool>(block));
    if (first) block(x.data(), expected.data(), count);
    first = false;
    CHECK(differences_over_offsets<In, Out>(
              expected, [&](int64_t offset, int64_t n, Out* out) { block(x.data() + offset, out, n); }) == 0);
    if constexpr (sizeof(In) == sizeof(Out)) {  // in place
      std::vector<In> y = x;
      block(y.data(), y.data(), count);
      for (int64_t i = 0; i < count; ++i) CHECK(bits(y[i]) == bits(static_cast<In>(expected[i])));
    }
  });
}

template <class In, class Out>
void check_binary(BinaryOp op, DType type) {
  const std::vector<In> a = inputs<In>(count, 1 + static_cast<int>(op)), b = inputs<In>(count, 77);
  std::vector<Out> expected(count);
  bool first = true;
  for_each_isa([&] {
    using namespace tessera::kernels::cpu;
    const BinaryBlocks blocks = TESSERA_PER_ISA(binary_blocks)(op, type);
    REQUIRE(static_cast<bool>(blocks.arrays));
    if (first) blocks.arrays(a.data(), b.data(), expected.data(), count);
    first = false;
    CHECK(differences_over_offsets<In, Out>(expected, [&](int64_t offset, int64_t n, Out* out) {
            blocks.arrays(a.data() + offset, b.data() + offset, out, n);
          }) == 0);
    // A scalar operand gives the same result as an array of that value.
    std::vector<In> constant(count, b[11]);
    std::vector<Out> spread(count), scalar(count);
    blocks.arrays(a.data(), constant.data(), spread.data(), count);
    blocks.scalar_second(a.data(), constant.data(), scalar.data(), count);
    for (int64_t i = 0; i < count; ++i) CHECK(bits(spread[i]) == bits(scalar[i]));
    blocks.arrays(constant.data(), a.data(), spread.data(), count);
    blocks.scalar_first(constant.data(), a.data(), scalar.data(), count);
    for (int64_t i = 0; i < count; ++i) CHECK(bits(spread[i]) == bits(scalar[i]));
  });
}

}  // namespace

TEST_CASE("elementwise bits: unary operations at every offset, length and instruction set") {
#define CHECK_FLOATING(name)                     \
  check_unary<float, float>(UnaryOp::name, f32); \
  check_unary<double, double>(UnaryOp::name, f64);
#define CHECK_PREDICATE(name)                      \
  check_unary<float, uint8_t>(UnaryOp::name, f32); \
  check_unary<double, uint8_t>(UnaryOp::name, f64);
#define CHECK_INTEGER(name)                          \
  check_unary<int64_t, int64_t>(UnaryOp::name, i64); \
  check_unary<int32_t, int32_t>(UnaryOp::name, i32); \
  check_unary<uint8_t, uint8_t>(UnaryOp::name, u8);
  TESSERA_UNARY_FLOAT_OPS(CHECK_FLOATING)
  TESSERA_UNARY_NUMERIC_OPS(CHECK_FLOATING)
  TESSERA_UNARY_NUMERIC_OPS(CHECK_INTEGER)
  TESSERA_UNARY_INTEGER_OPS(CHECK_INTEGER)
  TESSERA_UNARY_PREDICATES(CHECK_PREDICATE)
#undef CHECK_FLOATING
#undef CHECK_PREDICATE
#undef CHECK_INTEGER
}

TEST_CASE("elementwise bits: binary operations at every offset, length and instruction set") {
#define CHECK_FLOATING(name)                       \
  check_binary<float, float>(BinaryOp::name, f32); \
  check_binary<double, double>(BinaryOp::name, f64);
#define CHECK_INTEGER(name)                            \
  check_binary<int64_t, int64_t>(BinaryOp::name, i64); \
  check_binary<int32_t, int32_t>(BinaryOp::name, i32); \
  check_binary<uint8_t, uint8_t>(BinaryOp::name, u8);
#define CHECK_COMPARISON(name)                        \
  check_binary<float, uint8_t>(BinaryOp::name, f32);  \
  check_binary<double, uint8_t>(BinaryOp::name, f64); \
  check_binary<int64_t, uint8_t>(BinaryOp::name, i64);
  TESSERA_BINARY_NUMERIC_OPS(CHECK_FLOATING)
  TESSERA_BINARY_FLOAT_OPS(CHECK_FLOATING)
  TESSERA_BINARY_NUMERIC_OPS(CHECK_INTEGER)
  TESSERA_BINARY_INTEGER_OPS(CHECK_INTEGER)
  TESSERA_BINARY_COMPARISONS(CHECK_COMPARISON)
}

TEST_CASE("elementwise bits: conversions at every offset, length and instruction set") {
  const std::vector<float> x = inputs<float>(count, 5);
  for (const DType to : {f64, f32, bf16, f16, i64, i32, u8, boolean}) {
    std::vector<uint8_t> expected(count * 8), got(count * 8 + 64);
    bool first = true;
    for_each_isa([&] {
      using namespace tessera::kernels::cpu;
      const UnaryBlock block = TESSERA_PER_ISA(convert_block)(f32, to);
      if (first) block(x.data(), expected.data(), count);
      first = false;
      for (int64_t offset = 0; offset < 64; ++offset) {
        block(x.data() + offset, got.data(), count - offset);
        CHECK(std::memcmp(got.data(), expected.data() + offset * size_of(to),
                          (count - offset) * size_of(to)) == 0);
      }
    });
  }
}

TEST_CASE("elementwise bits: a slice, a strided view and the full tensor agree") {
  const Tensor x = ops::linspace(-9, 9, 40000, f32), full = ops::gelu(x);
  const Tensor slice = ops::gelu(x.slice(0, 12345, 33333)), every_third = ops::gelu(x.slice(0, 1, 40000, 3));
  for (int64_t i = 0; i < slice.numel(); ++i)
    CHECK(bits(slice.data<float>()[i]) == bits(full.data<float>()[12345 + i]));
  for (int64_t i = 0; i < every_third.numel(); ++i)
    CHECK(bits(every_third.data<float>()[i]) == bits(full.data<float>()[1 + 3 * i]));
}
