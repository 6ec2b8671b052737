// The loops of activation functions with parameters and of elementwise losses: every instruction set, offset
// and length gives the same bits, and f32 is near f64.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/cpu/isa.h"
#include "tensor/cpu/loops/activation_blocks.h"
#include "tensor/cpu/loops/loss_blocks.h"
#include "tensor/threads/parallel.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

constexpr int64_t count = 203;

const std::vector<ActivationFunction>& functions() {
  static const std::vector<ActivationFunction> list = {{ActivationKind::elu, 1.05, 1.7, 0.6},
                                                       {ActivationKind::hardshrink, 0.5},
                                                       {ActivationKind::hardsigmoid},
                                                       {ActivationKind::hardswish},
                                                       {ActivationKind::hardtanh, -1, 2},
                                                       {ActivationKind::leaky_relu, 0.1},
                                                       {ActivationKind::logsigmoid},
                                                       {ActivationKind::mish},
                                                       {ActivationKind::softplus, 1.5, 10},
                                                       {ActivationKind::softshrink, 0.5},
                                                       {ActivationKind::softsign},
                                                       {ActivationKind::tanhshrink},
                                                       {ActivationKind::threshold, 0.5, -2}};
  return list;
}

const std::vector<ElementwiseLoss>& losses() {
  static const std::vector<ElementwiseLoss> list = {
      {ElementwiseLossKind::l1_loss},         {ElementwiseLossKind::mse_loss},
      {ElementwiseLossKind::huber_loss, 0.7}, {ElementwiseLossKind::smooth_l1_loss, 0.7},
      {ElementwiseLossKind::bce_with_logits}, {ElementwiseLossKind::binary_cross_entropy}};
  return list;
}

/// Values from -12 to 12, zeros and large ones among them; with `unit` from 0 to 1.
template <class T>
std::vector<T> inputs(double phase, bool unit = false) {
  std::vector<T> x(count);
  for (int64_t i = 0; i < count; ++i) {
    const double wave = std::sin(1.7 * static_cast<double>(i) + phase);
    x[i] = static_cast<T>(unit ? 0.5 + 0.5 * wave : i % 31 == 7 ? 0.0 : i % 31 == 9 ? 90 * wave : 12 * wave);
  }
  return x;
}

template <class T>
bool same_bits(const std::vector<T>& a, const T* b) {
  return std::memcmp(a.data(), b, a.size() * sizeof(T)) == 0;
}

/// Calls `check` once for each instruction set.
template <class Check>
void for_each_isa(Check check) {
  const FlushDenormals flushed;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (!isa_available(isa)) continue;
    const IsaScope scope(isa);
    check();
  }
}

/// run(first, n, out) computes elements first to first + n: the results at every instruction set, and of
/// pieces, are those of the first set in one piece.
template <class T, class Run>
void check_bits(Run run) {
  std::vector<T> expected(count);
  bool first = true;
  for_each_isa([&] {
    if (first) run(0, count, expected.data());
    first = false;
    std::vector<T> got(count);
    run(0, count, got.data());
    CHECK(same_bits(expected, got.data()));
    for (const int64_t length : {1, 5, 17, 64}) {
      for (int64_t begin = 0; begin < count; begin += length)
        run(begin, std::min(length, count - begin), got.data() + begin);
      CHECK(same_bits(expected, got.data()));
    }
  });
}

template <class T>
void check_activation(const ActivationFunction& f, DType type) {
  const std::vector<T> x = inputs<T>(0.1), dy = inputs<T>(0.7);
  check_bits<T>([&](int64_t first, int64_t n, T* out) {
    TESSERA_PER_ISA(activation_block)(f.kind, type)(f, x.data() + first, out, n);
  });
  check_bits<T>([&](int64_t first, int64_t n, T* out) {
    TESSERA_PER_ISA(activation_gradient_block)(f.kind, type)(f, x.data() + first, dy.data() + first, out, n);
  });
}

template <class T>
void check_loss(const ElementwiseLoss& f, DType type) {
  const bool unit = f.kind == ElementwiseLossKind::binary_cross_entropy;
  const std::vector<T> x = inputs<T>(0.1, unit), t = inputs<T>(0.7, true), dy = inputs<T>(0.3);
  check_bits<T>([&](int64_t first, int64_t n, T* out) {
    TESSERA_PER_ISA(loss_blocks)(f.kind, type).values(f.p, x.data() + first, t.data() + first, out, n);
  });
  check_bits<T>([&](int64_t first, int64_t n, T* out) {
    TESSERA_PER_ISA(loss_blocks)
    (f.kind, type).gradients(f.p, 0.3, x.data() + first, t.data() + first, dy.data() + first, out, n);
  });
  std::vector<double> sums;
  for_each_isa([&] {
    sums.push_back(TESSERA_PER_ISA(loss_blocks)(f.kind, type).sum(f.p, x.data(), t.data(), count));
  });
  for (const double sum : sums) CHECK(sum == sums[0]);
}

}  // namespace

TEST_CASE("activation bits: values and gradients at every offset, length and instruction set") {
  for (const ActivationFunction& f : functions()) {
    INFO(std::string(name_of(f.kind)));
    check_activation<float>(f, f32);
    check_activation<double>(f, f64);
  }
}

TEST_CASE("loss bits: values, sums and gradients at every offset, length and instruction set") {
  for (const ElementwiseLoss& f : losses()) {
    INFO(std::string(name_of(f.kind)));
    check_loss<float>(f, f32);
    check_loss<double>(f, f64);
  }
}

TEST_CASE("activation accuracy: f32 against f64, relative to the larger of 1 and the value") {
  for (const ActivationFunction& f : functions()) {
    INFO(std::string(name_of(f.kind)));
    const FlushDenormals flushed;
    const std::vector<float> x = inputs<float>(0.1), one(count, 1.0f);
    const std::vector<double> wide(x.begin(), x.end()), ones(count, 1.0);
    std::vector<float> y(count), dx(count);
    std::vector<double> exact(count), slope(count);
    TESSERA_PER_ISA(activation_block)(f.kind, f32)(f, x.data(), y.data(), count);
    TESSERA_PER_ISA(activation_block)(f.kind, f64)(f, wide.data(), exact.data(), count);
    TESSERA_PER_ISA(activation_gradient_block)(f.kind, f32)(f, x.data(), one.data(), dx.data(), count);
    TESSERA_PER_ISA(activation_gradient_block)(f.kind, f64)(f, wide.data(), ones.data(), slope.data(), count);
    double largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      largest = std::max(largest, std::fabs(double(y[i]) - exact[i]) / std::max(1.0, std::fabs(exact[i])));
      largest = std::max(largest, std::fabs(double(dx[i]) - slope[i]) / std::max(1.0, std::fabs(slope[i])));
    }
    CHECK(largest < 4e-7);
  }
}
