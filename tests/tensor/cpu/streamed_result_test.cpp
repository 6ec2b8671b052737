// Results that are written past the caches: the same bytes as by ordinary stores. From 4 MiB a thread on they
// are, so one thread streams the results here and twelve do not.
#include "tensor/cpu/loops/streamed_result.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tensor/cpu/elementwise/elementwise.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/layers/normalization.h"
#include "tensor/ops/matmul.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;
using namespace tessera::kernels::cpu;

namespace {

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() &&
         (!a.defined() || (a.nbytes() == b.nbytes() &&
                           std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0));
}

/// The results of one thread, which streams, and of twelve are the same, on the lowest instruction set and on
/// this processor's.
void check(const char* what, const std::function<std::vector<Tensor>()>& compute) {
  const int before = num_threads();
  for (const Isa isa : {Isa::baseline, current_isa()}) {
    const IsaScope scope(isa);
    CAPTURE(what);
    CAPTURE(name(isa));
    set_num_threads(1);
    const std::vector<Tensor> streamed = compute();
    CHECK(streams_past_caches(streamed.front().nbytes()));
    set_num_threads(12);
    const std::vector<Tensor> stored = compute();
    for (size_t i = 0; i < streamed.size(); ++i) {
      CAPTURE(i);
      CHECK(streams_past_caches(streamed[i].nbytes()) == false);
      CHECK(same_bytes(streamed[i], stored[i]));
    }
  }
  set_num_threads(before);
}

Tensor values(const Shape& shape, DType dtype, int64_t phase = 0) {
  return filled(shape, dtype, [phase](int64_t i) { return scattered(i + phase); });
}

}  // namespace

TEST_CASE("streamed result: bytes are copied whatever their alignment and number, and none beside them") {
  std::vector<char> from(600), to(600);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(7 * i + 1);
  for (const Isa isa : all_isas) {
    if (!isa_available(isa)) continue;
    const IsaScope scope(isa);
    for (size_t offset = 0; offset < 70; offset += 3)
      for (size_t bytes = 0; bytes < 400; bytes += 13) {
        std::fill(to.begin(), to.end(), '\0');
        TESSERA_PER_ISA(stream_bytes)(from.data() + 5, static_cast<int64_t>(bytes), to.data() + offset);
        TESSERA_PER_ISA(finish_streaming)();
        std::vector<char> expected(600);
        std::memcpy(expected.data() + offset, from.data() + 5, bytes);
        REQUIRE(to == expected);
      }
  }
}

TEST_CASE("streamed result: elementwise operations, whole and in parts of other tensors") {
  const Shape shape{1200, 1801};  // rows that begin anywhere in a line; at least 4 MiB of bf16
  for (const DType dtype : {f32, bf16, f64}) {
    CAPTURE(to_string(dtype));
    const Tensor a = values(shape, dtype), b = values(shape, dtype, 5);
    check("add", [&] { return std::vector{ops::add(a, b)}; });
    check("mul by a row", [&] { return std::vector{ops::mul(a, b.select(0, 3))}; });
    check("cast", [&] { return std::vector{ops::cast(a, dtype == f32 ? bf16 : f32)}; });
    check("where", [&] { return std::vector{ops::where(ops::less(a, b), a, b)}; });
    check("fill", [&] {
      const Tensor out = Tensor::zeros({1200, 1900}, dtype);
      fill(out.narrow(1, 3, 1801), 1.5);
      return std::vector{out};
    });
    check("in place", [&] {
      const Tensor out = a.clone();
      binary(BinaryOp::add, dtype, out, b, out);
      return std::vector{out};
    });
    // A result with gaps.
    check("every other column", [&] {
      const Tensor out = Tensor::zeros({1200, 1801, 2}, dtype);
      binary(BinaryOp::add, dtype, a, b, out.select(2, 1));
      return std::vector{out};
    });
  }
}

TEST_CASE("streamed result: norms, with a residual and with elements dropped") {
  for (const DType dtype : {f32, bf16})
    for (const int64_t n : {int64_t{96}, int64_t{1501}, int64_t{3000}, int64_t{40000}}) {
      CAPTURE(to_string(dtype));
      const int64_t rows = (9 << 19) / n;  // 4.5 MiB of bf16
      const Tensor x = values({rows, n}, dtype), delta = values({rows, n}, dtype, 1),
                   dy = values({rows, n}, dtype, 2);
      const Tensor weight = values({n}, dtype, 3), bias = values({n}, dtype, 4);
      for (const double probability : {0.0, 0.3}) {
        const ops::DropoutMask mask{.probability = probability, .key = 7};
        check("layer norm", [&] {
          const ops::Normalized y = ops::add_layer_norm(x, delta, mask, weight, bias, 1e-5);
          const ops::NormalizationGradients g = ops::add_normalization_backward(
              delta, dy, y.sum, mask, weight, y.mean, y.rstd, 1, {.delta = true});
          return std::vector{y.y,
                             y.sum,
                             y.mean,
                             y.rstd,
                             g.x,
                             g.weight,
                             g.bias,
                             g.delta.defined() ? g.delta : y.y,
                             ops::recompute_normalized(x, weight, bias, y.mean, y.rstd)};
        });
      }
    }
}

TEST_CASE("streamed result: dropout") {
  for (const DType dtype : {f32, f64}) {
    const Tensor x = values({1100, 1001}, dtype), base = values({1100, 1001}, dtype, 1);
    const ops::DropoutMask mask{.probability = 0.3, .key = 7};
    check("dropout", [&] { return std::vector{ops::dropout(x, mask), ops::add_dropout(base, x, mask)}; });
  }
}

TEST_CASE("streamed result: f32 products of one range of k, by our kernels") {
  const MatmulBackend before = matmul_backend();
  set_matmul_backend(MatmulBackend::packed);
  for (const int64_t n : {int64_t{1008}, int64_t{1001}})
    for (const int64_t k : {int64_t{65}, int64_t{600}}) {
      const Tensor a = values({1100, k}, f32), b = values({k, n}, f32, 1), bias = values({n}, f32, 2);
      check("product", [&] {
        return std::vector{ops::matmul(a, b), ops::linear(a, b.transpose(0, 1).contiguous(), bias)};
      });
    }
  set_matmul_backend(before);
}
