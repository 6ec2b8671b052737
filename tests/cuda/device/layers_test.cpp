// Layers of a GPT on a device but attention: bits of elementwise ones, results of products, memory that is
// taken over.
#include <doctest/doctest.h>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/layers/activation_linear.h"
#include "tensor/arguments/activation_table.h"
#include "tensor/cuda/layers/activation_linear.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/layers/activation_linear.h"
#include "tensor/ops/layers/gated.h"
#include "tensor/ops/layers/rotary.h"
#include "tests/cuda/device/on_device.h"

using namespace tessera;

namespace {

constexpr DType floating[] = {f64, f32, bf16, f16};
constexpr Activation activations[] = {Activation::gelu, Activation::gelu_tanh, Activation::relu,
                                      Activation::silu};

Tensor values(const Shape& shape, DType dtype) {
  return ops::cast(randn(shape), dtype);
}

double tolerance_of(DType dtype) {
  return dtype == f64 ? 1e-13 : dtype == f32 ? 4e-6 : dtype == bf16 ? 0x1p-6 : 0x1p-9;
}

}  // namespace

TEST_CASE("cuda: gated units have the CPU's bits, also of the halves of one tensor") {
  const Device device = test::device_under_test();
  manual_seed(1);
  for (const DType dtype : floating)
    for (const Gate gate : {Gate::sigmoid, Gate::silu, Gate::gelu, Gate::gelu_tanh, Gate::relu}) {
      CAPTURE(to_string(gate));
      const Tensor a = values({5, 24}, dtype), b = values({5, 24}, dtype), dy = values({5, 24}, dtype);
      CHECK(test::have_same_bits(ops::gated(gate, a.to(device), b.to(device)), ops::gated(gate, a, b)));
      const auto backward = [&](Device where) {
        const Tensor both = Tensor::zeros({5, 48}, dtype, where);  // the gradients are its halves
        ops::gated_backward(gate, a.to(where), b.to(where), dy.to(where), both.narrow(1, 24, 24),
                            both.narrow(1, 0, 24));
        return both;
      };
      CHECK(test::have_same_bits(backward(device), backward(cpu())));
    }
  const Tensor x = values({3, 7, 10}, f32), dy = values({3, 7, 5}, f32);
  CHECK(test::have_same_bits(ops::glu(x.to(device)), ops::glu(x)));
  CHECK(test::have_same_bits(ops::glu_backward(x.to(device), dy.to(device)), ops::glu_backward(x, dy)));
}

TEST_CASE("cuda: f(x) and f'(x) dy in one pass have the bits of two operations, also in dy's memory") {
  const Device device = test::device_under_test();
  manual_seed(2);
  for (const DType dtype : floating)
    for (const Activation f : activations) {
      CAPTURE(to_string(f));
      const Tensor x = values({257}, dtype), dy = values({257}, dtype);
      const Tensor on_device = x.to(device), y = dy.to(device), dx = Tensor::empty_like(y);
      const Tensor expected = ops::activation(f, x);
      kernels::cuda::activation_gradient(f, on_device, y, y, dx);
      CHECK(test::have_same_bits(y, expected));
      const BinaryOp backward = row_of(f).backward;
      const Tensor slope = Tensor::empty_like(x);
      ops::binary_out(backward, x, dy, slope);
      CHECK(test::have_same_bits(dx, slope));
    }
}

TEST_CASE("cuda: a linear layer of f(x), and its backward into x's memory") {
  const Device device = test::device_under_test();
  manual_seed(3);
  for (const DType dtype : floating)
    for (const Activation f : activations) {
      CAPTURE(to_string(f));
      const Tensor x = values({6, 5, 16}, dtype), weight = values({8, 16}, dtype), bias = values({8}, dtype),
                   dy = values({6, 5, 8}, dtype);
      const auto run = [&](Device where) {
        const Variable input = Variable::leaf(x.to(where)), w = Variable::leaf(weight.to(where)),
                       b = Variable::leaf(bias.to(where));
        Variable y = activation_linear(f, input + input, w, b);  // a sum that nothing else holds
        y.backward(Variable(dy.to(where)));
        return std::vector<Tensor>{y.value(), input.grad().value(), w.grad().value(), b.grad().value()};
      };
      const std::vector<Tensor> here = run(cpu()), there = run(device);
      for (size_t i = 0; i < here.size(); ++i) {
        CAPTURE(i);
        CHECK(test::relative_difference(there[i], here[i]) < 4 * tolerance_of(dtype));
      }
    }
  const Tensor x = Tensor::zeros({4, 8}, f32, device), w = Tensor::zeros({3, 8}, f32, device);
  CHECK(ops::activation_linear_overwrites(x, w, w));
  CHECK(!ops::activation_linear_overwrites(x.transpose(0, 1), Tensor::zeros({3, 4}, f32, device), {}));
}

TEST_CASE("cuda: rotary positions, by rows of their own, and back") {
  const Device device = test::device_under_test();
  manual_seed(4);
  for (const DType dtype : floating)
    for (const bool interleaved : {false, true}) {
      const RotaryOptions options[] = {
          {.interleaved = interleaved},
          {.dims = 6, .interleaved = interleaved, .first_position = 1000},
          {.interleaved = interleaved, .first_positions = {3, 0, 70000}},
      };
      for (const RotaryOptions& o : options) {
        const Tensor x = values({3, 2, 5, 8}, dtype);
        const Tensor y = ops::rotary(x.to(device), o);
        // A cosine in f64 may be rounded the other way, and that is a step of f32.
        CHECK(test::relative_difference(y, ops::rotary(x, o)) < tolerance_of(dtype));
        CHECK(y.strides() == ops::rotary(x, o).strides());
        CHECK(test::relative_difference(ops::rotary(y, o, true), x) < 2 * tolerance_of(dtype));
      }
    }
}
