#include "tensor/cpu/gemm/kept_operands.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>
#include <vector>

#include "tensor/cpu/gemm/packed/gemm_packed.h"
#include "tensor/cpu/gemm/product_choice.h"
#include "tensor/cpu/gemm/tiles/tile_registers.h"
#include "tensor/ops/layers/activation_linear.h"
#include "tensor/ops/layers/quantized_linear.h"
#include "tensor/ops/matmul.h"
#include "tensor/packed_weight_scope.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using kernels::cpu::kept_operands;

namespace {

/// Products of f32 by our kernels as long as it lives.
struct OurKernels {
  MatmulBackend before = kernels::cpu::chosen_backend.exchange(MatmulBackend::packed);
  ~OurKernels() { kernels::cpu::chosen_backend = before; }
};

struct Threads {
  int before = num_threads();
  ~Threads() { set_num_threads(before); }
};

/// A weight (n, k).
Tensor weight_of(int64_t n, int64_t k, DType dtype = f32) {
  return random_tensor({n, k}, dtype, 2);
}

Tensor product(const Tensor& x, const Tensor& weight) {
  return ops::matmul(x, weight.transpose(0, 1));
}

/// Checks that `compute` gives the same bits three times in a scope as outside, on `counts` threads, and
/// that `packed` operands stay packed.
void check_bits(const std::function<Tensor()>& compute, int64_t packed,
                const std::vector<int>& counts = {1, 3}) {
  const Threads threads;
  for (const int count : counts) {
    CAPTURE(count);
    set_num_threads(count);
    const Tensor expected = compute();
    const PackedWeightScope scope;
    for (int times = 1; times <= 3; ++times) {
      CAPTURE(times);
      CHECK(same_bits(compute(), expected));
      CHECK(kept_operands->packed() == (times > 1 ? packed : 0));
    }
  }
}

struct Size {
  int64_t m, k, n;
};

void check_bf16_products(const std::vector<Size>& sizes) {
  for (const auto& s : sizes)
    for (const DType out : {bf16, f32})
      for (const bool transposed : {false, true}) {
        CAPTURE(s.k);
        CAPTURE(transposed);
        const Tensor a = random_tensor({s.m, s.k}, bf16, 1),
                     b = transposed ? weight_of(s.n, s.k, bf16).transpose(0, 1) : weight_of(s.k, s.n, bf16);
        // Threads pack the longest columns together where products run on tiles.
        const bool shared = s.k > 8192 && kernels::cpu::multiplies_pairs_on_tiles();
        check_bits(
            [&] {
              const Tensor c = Tensor::empty({s.m, s.n}, out);
              c.fill_(1.0);
              ops::matmul_accumulate(c, a, b);
              return c;
            },
            1, shared ? std::vector<int>{1} : std::vector<int>{1, 3});
      }
}

}  // namespace

TEST_CASE("packed weights: f32 products have the same bits") {
  const OurKernels ours;
  struct {
    int64_t m, k, n;
  } const sizes[] = {{48, 40, 600}, {33, 65, 50}, {100, 1300, 300}, {20, 5001, 70}, {100, 90, 320}};
  for (const auto& s : sizes)
    for (const bool transposed : {false, true}) {
      CAPTURE(s.k);
      CAPTURE(transposed);
      const Tensor a = random_tensor({s.m, s.k}, f32, 1), bias = random_tensor({s.n}, f32, 3),
                   b = transposed ? weight_of(s.n, s.k).transpose(0, 1) : weight_of(s.k, s.n);
      const bool in_place = !transposed && kernels::cpu::reads_panels_in_place(s.k, s.n, s.n);
      check_bits([&] { return ops::matmul(a, b); }, in_place ? 0 : 1);
      if (transposed) check_bits([&] { return ops::linear(a, b.transpose(0, 1), bias); }, 1);
    }
}

TEST_CASE("packed weights: bf16 products have the same bits, on vectors and on tiles") {
  if (kernels::cpu::bf16_product() != kernels::cpu::Bf16Product::pairs) {
    MESSAGE("skipped: products of bf16 run through f32 here");
    return;
  }
  check_bf16_products({{33, 64, 48}, {40, 65, 50}, {100, 130, 300}, {17, 3001, 70}, {33, 9001, 17}});
  const kernels::cpu::TileModelScope model;
  check_bf16_products({{33, 64, 48}, {40, 65, 50}, {17, 1101, 20}});
}

TEST_CASE("packed weights: activation_linear and its backward") {
  const OurKernels ours;
  const Tensor x = random_tensor({70, 600}, f32, 1), w = weight_of(65, 600),
               dy = random_tensor({70, 65}, f32, 3);
  const std::vector<int> counts{1, 3, 40};  // of 40, products and the pass over x one by one
  check_bits([&] { return ops::activation_linear(Activation::gelu, x, w); }, 1, counts);
  for (const bool with_weight : {false, true})
    check_bits(
        [&] {
          ops::ActivationLinearGradients out;
          out.x = Tensor::empty_like(x);
          if (with_weight) out.weight = Tensor::empty_like(w);
          ops::activation_linear_backward(Activation::gelu, dy, x, w, out);
          return with_weight ? ops::matmul(out.x, out.weight.transpose(0, 1)) : out.x;
        },
        1, counts);
}

TEST_CASE(
    "packed weights: new values are packed anew, at their first product where those before came again") {
  const OurKernels ours;
  const Tensor x = random_tensor({40, 64}, f32, 1), w = weight_of(80, 64);
  const PackedWeightScope scope;
  const auto check = [&](int64_t packed) {
    Tensor copy = w.clone();
    const Tensor expected = ops::matmul(x, copy.transpose(0, 1));
    CHECK(same_bits(product(x, w), expected));
    CHECK(kept_operands->packed() == packed);
  };
  check(0);
  check(1);
  check(1);
  w.fill_(0.5);
  check(2);
  w.fill_(0.25);  // after values that came once
  check(2);
  CHECK(PackedWeightScope::kept_bytes() == 0);
  check(3);
  w.fill_(2.0);
  check(4);
  CHECK(PackedWeightScope::kept_bytes() >= w.nbytes());
}

TEST_CASE("packed weights: a part of a weight, and its transpose, are operands of their own") {
  const OurKernels ours;
  const Tensor x = random_tensor({40, 64}, f32, 1), w = weight_of(640, 64), half = w.narrow(0, 320, 320);
  const Tensor dy = random_tensor({40, 640}, f32, 1);
  const Tensor whole = product(x, w), part = product(x, half), back = ops::matmul(dy, w);
  const PackedWeightScope scope;
  for (int times = 0; times < 3; ++times) {
    CHECK(same_bits(product(x, w), whole));
    CHECK(same_bits(product(x, half), part));
    CHECK(same_bits(ops::matmul(dy, w), back));
  }
}

TEST_CASE("packed weights: another tensor at the same address") {
  const OurKernels ours;
  const Tensor x = random_tensor({40, 64}, f32, 1);
  const PackedWeightScope scope;
  for (int times = 0; times < 8; ++times) {
    const Tensor w = Tensor::empty({80, 64}, f32);
    for (int64_t i = 0; i < w.numel(); ++i) w.data<float>()[i] = static_cast<float>(times);
    const Tensor once = product(x, w), again = product(x, w), third = product(x, w);
    const Tensor ones = Tensor::empty({80, 64}, f32);
    for (int64_t i = 0; i < w.numel(); ++i) ones.data<float>()[i] = static_cast<float>(times);
    const Tensor expected = product(x, ones);
    CHECK(same_bits(once, expected));
    CHECK(same_bits(again, expected));
    CHECK(same_bits(third, expected));
  }
}

TEST_CASE("packed weights: those of tensors that are gone are dropped in time") {
  const OurKernels ours;
  const Tensor x = random_tensor({40, 64}, f32, 1), dy = random_tensor({40, 600}, f32, 1);
  const PackedWeightScope scope;
  {
    std::vector<Tensor> weights;  // together, so that each has an address of its own
    for (int i = 0; i < 60; ++i) {
      weights.push_back(weight_of(600, 64));
      for (int times = 0; times < 2; ++times) {
        product(x, weights.back());
        ops::matmul(dy, weights.back());
      }
    }
    CHECK(PackedWeightScope::kept_bytes() >= 60 * weights[0].nbytes());
  }
  std::vector<Tensor> others;
  for (int i = 0; i < 200; ++i) {
    others.push_back(weight_of(600, 64));
    product(x, others.back());
  }
  CHECK(PackedWeightScope::kept_bytes() == 0);
}

TEST_CASE("packed weights: a renewal before new values does not forget that they come again") {
  const OurKernels ours;
  const Tensor x = random_tensor({40, 64}, f32, 1), w = weight_of(80, 64);
  const PackedWeightScope scope;
  product(x, w);
  product(x, w);
  CHECK(kept_operands->packed() == 1);
  for (const bool before : {false, true}) {
    const int64_t packed = kept_operands->packed();
    if (before) PackedWeightScope::renew();
    w.fill_(before ? 0.5 : 0.25);
    if (!before) PackedWeightScope::renew();
    const Tensor expected = ops::matmul(x, w.clone().transpose(0, 1));
    CHECK(same_bits(product(x, w), expected));
    CHECK(kept_operands->packed() == packed + 1);
    CHECK(same_bits(product(x, w), expected));
    CHECK(kept_operands->packed() == packed + 1);
  }
}

TEST_CASE("packed weights: weights of 8 bits, which a product widens in parts") {
  const OurKernels ours;
  for (const DType dtype : {f32, bf16}) {
    const Tensor x = random_tensor({40, 1024}, dtype, 1);
    const auto weight = ops::quantize_rows(weight_of(3500, 1024));
    const Tensor expected = ops::quantized_linear(x, weight);
    const PackedWeightScope scope;
    for (int times = 0; times < 3; ++times) CHECK(same_bits(ops::quantized_linear(x, weight), expected));
  }
}

TEST_CASE("packed weights: many rows, a scope's end, an inner scope, another thread, and writes by pointer") {
  const OurKernels ours;
  const Tensor x = random_tensor({40, 64}, f32, 1), w = weight_of(80, 64);
  CHECK(kept_operands == nullptr);
  CHECK(PackedWeightScope::kept_bytes() == 0);
  {
    const PackedWeightScope scope;
    const Tensor many = random_tensor({257, 64}, f32, 1);
    product(many, w);
    product(many, w);
    CHECK(kept_operands->packed() == 0);
    {
      const PackedWeightScope inner;
      product(x, w);
      product(x, w);
    }
    CHECK(kept_operands->packed() == 1);
    std::thread([&] {
      CHECK(kept_operands == nullptr);
      product(x, w);
    }).join();
    const Tensor expected_many = product(many, w.clone());
    CHECK(same_bits(product(many, w), expected_many));
    w.data<float>()[7] = 3;
    PackedWeightScope::renew();
    const Tensor expected = product(x, w.clone());
    CHECK(same_bits(product(x, w), expected));
    CHECK(kept_operands->packed() == 2);
  }
  CHECK(kept_operands == nullptr);
}
