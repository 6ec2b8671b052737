#include "tensor/ops/layers/activation_linear.h"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "tensor/cpu/loops/value_and_gradient.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/matmul.h"
#include "tensor/profile/cost.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

namespace tessera::kernels::cpu {
namespace {

GradientBlock gelu_gradient(DType dtype) {
  return TESSERA_PER_ISA_BF16(gradient_block)(UnaryOp::gelu, dtype);
}

}  // namespace
}  // namespace tessera::kernels::cpu

using namespace tessera;
using kernels::cpu::gelu_gradient;

namespace {

struct ThreadsScope {
  int previous = num_threads();
  explicit ThreadsScope(int threads) { set_num_threads(threads); }
  ~ThreadsScope() { set_num_threads(previous); }
};

/// Sizes that are no multiple of the blocks of rows, of columns and of vectors, and a width above one block.
struct Size {
  int64_t rows, in, out;
};
const Size sizes[] = {{1, 4, 3}, {50, 37, 41}, {130, 512, 24}, {70, 1100, 40}, {300, 2048, 16}, {5, 1, 1}};

double tolerance(DType dtype, int64_t terms) {
  return static_cast<double>(terms) * (dtype == f64 ? 0x1p-50 : dtype == f32 ? 0x1p-20 : 0x1p-6);
}

}  // namespace

TEST_CASE("activation: each value names the function of that name") {
  const Tensor x = random_tensor({7, 9}, f64, 1);
  CHECK(largest_difference(ops::activation(Activation::gelu, x), ops::gelu(x)) == 0);
  CHECK(largest_difference(ops::activation(Activation::gelu_tanh, x), ops::gelu_tanh(x)) == 0);
  CHECK(largest_difference(ops::activation(Activation::relu, x), ops::relu(x)) == 0);
  CHECK(largest_difference(ops::activation(Activation::silu, x), ops::silu(x)) == 0);
}

TEST_CASE("gelu: value and gradient in one pass have the same bits as separately, on every instruction set") {
  for (kernels::cpu::Isa isa : kernels::cpu::all_isas) {
    if (!kernels::cpu::isa_available(isa)) continue;
    const kernels::cpu::IsaScope scope(isa);
    for (DType dtype : {f32, f64}) {
      const Tensor x = ops::linspace(-15, 15, 1001, dtype), dy = ops::linspace(3, -2, 1001, dtype),
                   y = Tensor::empty_like(x), dx = Tensor::empty_like(x);
      {
        const FlushDenormals flushed;
        gelu_gradient(dtype)(x.raw_data(), dy.raw_data(), y.raw_data(), dx.raw_data(), 1001);
      }
      CHECK(same_bits(y, ops::gelu(x)));
      CHECK(same_bits(dx, ops::gelu_backward(x, dy)));
    }
  }
}

TEST_CASE("activation_linear: the linear layer of the activated input, on any number of threads") {
  for (const int threads : {1, 2, 3})
    for (DType dtype : {f64, f32, bf16})
      for (const Size& s : sizes) {
        ThreadsScope scope(threads);
        CAPTURE(text(dtype, " ", s.rows, " x ", s.in, " to ", s.out, ", ", threads, " threads"));
        const Tensor x = random_tensor({s.rows, s.in}, dtype, 1), w = random_tensor({s.out, s.in}, dtype, 2),
                     b = random_tensor({s.out}, dtype, 3);
        const Tensor expected = ops::linear(ops::gelu(to_f64(x)), to_f64(w), to_f64(b));
        CHECK(largest_difference(ops::activation_linear(Activation::gelu, x, w, b), expected) <=
              tolerance(dtype, s.in));
      }
}

TEST_CASE("activation_linear: dx and dW are those of the separate operations, written or added") {
  for (const int threads : {1, 2, 3})
    for (DType dtype : {f64, f32})
      for (const Size& s : sizes) {
        ThreadsScope scope(threads);
        CAPTURE(text(dtype, " ", s.rows, " x ", s.in, " to ", s.out, ", ", threads, " threads"));
        const Tensor x = random_tensor({s.rows, s.in}, dtype, 1), w = random_tensor({s.out, s.in}, dtype, 2),
                     dy = random_tensor({s.rows, s.out}, dtype, 3),
                     before = random_tensor({s.out, s.in}, dtype, 4);
        const Tensor dx = ops::gelu_backward(to_f64(x), ops::matmul(to_f64(dy), to_f64(w)));
        const Tensor dw = ops::matmul(to_f64(dy).transpose(0, 1), ops::gelu(to_f64(x)));
        ops::ActivationLinearGradients out{.x = Tensor::empty_like(x), .weight = Tensor::empty_like(w)};
        ops::activation_linear_backward(Activation::gelu, dy, x, w, out);
        CHECK(largest_difference(out.x, dx) <= tolerance(dtype, s.out));
        CHECK(largest_difference(out.weight, dw) <= tolerance(dtype, s.rows));

        out = {.x = {}, .weight = before.clone(), .add_to_weight = true};
        ops::activation_linear_backward(Activation::gelu, dy, x, w, out);
        CHECK(largest_difference(out.weight, ops::add(dw, to_f64(before))) <= tolerance(dtype, s.rows));
      }
}

TEST_CASE("activation_linear: by our kernels, results have the products' bits, on any number of threads") {
  // Rows of dy read in place (up to 256) and packed, ranges of rows (512), groups of them (16 MiB), partial
  // panels.
  const MatmulBackend backend = matmul_backend();
  set_matmul_backend(MatmulBackend::packed);
  // Few rows, sums and weights that are longer than what is packed at once (4,096; 8,192), and more f(x) than
  // a pass has (16 MiB).
  for (const Size& s : {Size{700, 130, 50},
                        {1100, 75, 300},
                        {600, 300, 256},
                        {9000, 17, 500},
                        {200, 1100, 40},
                        {40, 1100, 20},
                        {20, 64, 50},
                        {50, 4200, 24},
                        {60, 40, 8300},
                        {9000, 512, 24},
                        {40, 140000, 8}}) {
    CAPTURE(text(s.rows, " x ", s.in, " to ", s.out));
    const Tensor x = random_tensor({s.rows, s.in}, f32, 1), w = random_tensor({s.out, s.in}, f32, 2),
                 dy = random_tensor({s.rows, s.out}, f32, 3);
    const Tensor dw = ops::matmul(dy.transpose(0, 1), ops::gelu(x)),
                 dx = ops::gelu_backward(x, ops::matmul(dy, w)),
                 y = ops::matmul(ops::gelu(x), w.transpose(0, 1));
    std::optional<double> squares;
    for (const int threads : {1, 2, 3, 9, 48}) {  // of many, products and the pass over x one by one
      const ThreadsScope scope(threads);
      const ops::ProductSquaresScope wanted;
      const ops::ActivationLinearGradients out{.x = x.clone(), .weight = Tensor::empty_like(w)};
      ops::activation_linear_backward(Activation::gelu, dy, out.x, w, out);
      CHECK(same_bits(out.x, dx));
      CHECK(same_bits(out.weight, dw));
      REQUIRE(out.weight.noted_squares().has_value());
      if (!squares) squares = out.weight.noted_squares();
      CHECK(*out.weight.noted_squares() == *squares);
      double sum = 0;
      for (int64_t i = 0; i < dw.numel(); ++i)
        sum += static_cast<double>(dw.data<float>()[i]) * static_cast<double>(dw.data<float>()[i]);
      CHECK(*squares == doctest::Approx(sum).epsilon(1e-12));
      CHECK(same_bits(ops::activation_linear(Activation::gelu, x, w), y));
      const ops::ActivationLinearGradients apart{.x = Tensor::empty_like(x), .weight = Tensor::empty_like(w)};
      ops::activation_linear_backward(Activation::gelu, dy, x, w, apart);
      CHECK(same_bits(apart.x, dx));
      const ops::ActivationLinearGradients of_weight{
          .x = {}, .weight = ops::zeros({s.out, s.in}, f32), .add_to_weight = true};
      ops::activation_linear_backward(Activation::gelu, dy, x, w, of_weight);
      CHECK(same_bits(of_weight.weight, dw));
      const ops::ActivationLinearGradients alone{.x = Tensor::empty_like(x), .weight = {}};
      ops::activation_linear_backward(Activation::gelu, dy, x, w, alone);
      CHECK(same_bits(alone.x, dx));
    }
  }
  // Without value and gradient in one pass; a bias; a gradient that is added.
  const Tensor x = random_tensor({200, 96}, f32, 1), w = random_tensor({72, 96}, f32, 2),
               dy = random_tensor({200, 72}, f32, 3), bias = random_tensor({72}, f32, 4);
  for (const Activation f : {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu}) {
    const auto compute = [&](int threads, bool over_x) {
      const ThreadsScope scope(threads);
      const ops::ActivationLinearGradients out{.x = over_x ? x.clone() : Tensor::empty_like(x),
                                               .weight = random_tensor({72, 96}, f32, 5),
                                               .add_to_weight = true};
      ops::activation_linear_backward(f, dy, over_x ? out.x : x, w, out);
      return std::vector<Tensor>{ops::activation_linear(f, x, w, bias), out.x, out.weight};
    };
    const std::vector<Tensor> expected = compute(1, false);
    CHECK(same_bits(expected[0], ops::linear(ops::activation(f, x), w, bias)));
    for (const int threads : {1, 3, 30})
      for (const bool over_x : {false, true}) {
        const std::vector<Tensor> results = compute(threads, over_x);
        for (size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], expected[i]));
      }
  }
  set_matmul_backend(backend);
}

TEST_CASE("activation_linear: bf16 adds into an f32 gradient") {
  const Tensor x = random_tensor({40, 24}, bf16, 1), w = random_tensor({16, 24}, bf16, 2),
               dy = random_tensor({40, 16}, bf16, 3);
  const Tensor dw = ops::ones({16, 24}, f32);
  ops::activation_linear_backward(Activation::relu, dy, x, w, {.x = {}, .weight = dw, .add_to_weight = true});
  const Tensor expected = ops::matmul(to_f64(dy).transpose(0, 1), ops::relu(to_f64(x)));
  CHECK(largest_difference(dw, ops::add(expected, ops::ones({16, 24}, f64))) <= 40 * 0x1p-20);
}

TEST_CASE("activation_linear: counts its products, on meta too, and names sizes that do not match") {
  const Tensor x = Tensor::empty({3, 5, 4}, f32, meta()), w = Tensor::empty({6, 4}, f32, meta());
  Cost cost;
  {
    CostScope scope(cost);
    CHECK(ops::activation_linear(Activation::gelu, x, w).shape() == Shape{3, 5, 6});
  }
  CHECK(cost.flops == 2 * 15 * 4 * 6);
  CHECK_THROWS_WITH_AS(ops::activation_linear(Activation::gelu, x, Tensor::empty({6, 5}, f32, meta())),
                       doctest::Contains("activation_linear: input has 4 features"), ShapeError);
}
