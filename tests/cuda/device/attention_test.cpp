// Attention on a CUDA device, which TESSERA_TEST_DEVICE names, against the CPU's in f64 from the same values.
#include "tensor/ops/layers/attention.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tensor/cuda/runtime/library.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/random/random_context.h"
#include "tests/cuda/device/on_device.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

/// The operands of a call, on one device.
struct Operands {
  Tensor q, k, v, dout, mask;
};
/// What forward and backward give.
struct Result {
  ops::Attention forward;
  Tensor dq, dk, dv;
};

/// Storage as (B, T, H, D), as layers have it.
Tensor empty_heads(const Tensor& like) {
  return Tensor::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.dtype(), like.device())
      .transpose(1, 2);
}

Result run(const Operands& x, const AttentionOptions& options) {
  Result r{ops::attention(x.q, x.k, x.v, options, x.mask), empty_heads(x.q), empty_heads(x.k),
           empty_heads(x.v)};
  ops::attention_backward(x.q, x.k, x.v, r.forward, x.dout, options, r.dq, r.dk, r.dv, x.mask);
  return r;
}

/// The operands on the device, in their layout: a view stays one.
Tensor moved(const Tensor& x, Device device) {
  if (!x.defined()) return x;
  Tensor storage = x.transpose(1, 2).to(device);
  return storage.transpose(1, 2);
}

struct Case {
  DType dtype = f32;
  int64_t batch = 1, heads = 1, shared = 1, queries = 1, keys = 1, width = 1;
  AttentionOptions options = {};
  int mask = 0;  ///< 1 key padding, 2 bools for all, 3 added, 4 added and the same for all heads and rows
  bool joined = false;  ///< q, k and v are views of one product

  std::string describe() const {
    return text(dtype, " B ", batch, " H ", heads, "/", shared, " T ", queries, "/", keys, " D ", width,
                options.causal ? " causal" : "", " window ", options.window.value_or(0), " dropout ",
                options.dropout, " scale ", options.scale, options.alibi_slopes.empty() ? "" : " slopes",
                options.first_positions.empty() ? "" : " positions", " mask ", mask, joined ? " joined" : "");
  }
};

/// A tensor (B, H, T, D) in memory (B, T, H, D).
Tensor heads(int64_t batch, int64_t count, int64_t time, int64_t width, DType dtype, uint64_t seed) {
  return random_tensor({batch, time, count, width}, dtype, seed).transpose(1, 2);
}

Tensor mask_of(const Case& c, uint64_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  if (c.mask == 0) return {};
  if (c.mask <= 2) {
    const Shape shape =
        c.mask == 1 ? Shape{c.batch, 1, 1, c.keys} : Shape{c.batch, c.heads, c.queries, c.keys};
    const Tensor mask = Tensor::empty(shape, boolean);
    for (int64_t i = 0; i < mask.numel(); ++i) mask.data<bool>()[i] = random() % 4 != 0;
    return mask;
  }
  const Shape shape = c.mask == 3 ? Shape{c.batch, c.heads, c.queries, c.keys} : Shape{c.queries, c.keys};
  const Tensor mask = random_tensor(shape, c.dtype == f64 ? f64 : f32, seed);
  for (int64_t i = 0; i < mask.numel(); i += 7)
    if (mask.dtype() == f64)
      mask.data<double>()[i] = -INFINITY;
    else
      mask.data<float>()[i] = -INFINITY;
  return mask;
}

/// The operands on the CPU; q, k and v are views of one product where the case says so.
Operands operands_of(const Case& c, uint64_t seed) {
  Operands x{heads(c.batch, c.heads, c.queries, c.width, c.dtype, seed),
             heads(c.batch, c.shared, c.keys, c.width, c.dtype, seed + 1),
             heads(c.batch, c.shared, c.keys, c.width, c.dtype, seed + 2),
             heads(c.batch, c.heads, c.queries, c.width, c.dtype, seed + 3), mask_of(c, seed)};
  if (!c.joined) return x;
  const Tensor all = heads(c.batch, c.heads + 2 * c.shared, c.queries, c.width, c.dtype, seed);
  x.q = all.narrow(1, 0, c.heads);
  x.k = all.narrow(1, c.heads, c.shared);
  x.v = all.narrow(1, c.heads + c.shared, c.shared);
  return x;
}

/// The same operands on the device, with the same sharing of memory.
Operands on_device(const Case& c, const Operands& x, Device device) {
  Operands there{moved(x.q, device), moved(x.k, device), moved(x.v, device), moved(x.dout, device),
                 x.mask.defined() ? x.mask.to(device) : Tensor()};
  if (!c.joined) return there;
  const Tensor all =
      Tensor::empty({c.batch, c.queries, c.heads + 2 * c.shared, c.width}, c.dtype, device).transpose(1, 2);
  all.narrow(1, 0, c.heads).copy_from(there.q);
  all.narrow(1, c.heads, c.shared).copy_from(there.k);
  all.narrow(1, c.heads + c.shared, c.shared).copy_from(there.v);
  there.q = all.narrow(1, 0, c.heads);
  there.k = all.narrow(1, c.heads, c.shared);
  there.v = all.narrow(1, c.heads + c.shared, c.shared);
  return there;
}

Operands widened(const Operands& x) {
  const auto wide = [](const Tensor& t) { return ops::cast(t, f64); };
  return {wide(x.q), wide(x.k), wide(x.v), wide(x.dout),
          x.mask.defined() && x.mask.dtype() != boolean ? wide(x.mask) : x.mask};
}

/// The largest difference from the f64 result, over the largest value, or over 1 where all are smaller.
double error_of(const Tensor& got, const Tensor& expected) {
  const Tensor x = to_f64(got.to(cpu())), y = to_f64(expected);
  double largest = 1, difference = 0;
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double a = x.data<double>()[i], b = y.data<double>()[i];
    if (a == b) continue;  // infinities too
    if (std::isfinite(b)) largest = std::max(largest, std::abs(b));
    difference = std::max(difference, std::isnan(a - b) ? INFINITY : std::abs(a - b));
  }
  return difference / largest;
}

/// Values below 1, at most some hundred terms of a sum: roundings of weights, scores' gradients and results.
double tolerance(DType dtype) {
  return dtype == f64 ? 1e-13 : dtype == f32 ? 5e-6 : dtype == f16 ? 8 * 0x1p-11 : 8 * 0x1p-8;
}

bool equal_bits(const Tensor& a, const Tensor& b) {
  return same_bits(a.to(cpu()), b.to(cpu()));
}
bool equal_bits(const Result& a, const Result& b) {
  return equal_bits(a.forward.out, b.forward.out) &&
         equal_bits(a.forward.log_sum_exp, b.forward.log_sum_exp) && equal_bits(a.dq, b.dq) &&
         equal_bits(a.dk, b.dk) && equal_bits(a.dv, b.dv);
}

void check(const Case& c, uint64_t seed, Device device) {
  CAPTURE(c.describe());
  CAPTURE(seed);
  const Operands here = operands_of(c, seed), there = on_device(c, here, device);
  const Result expected = run(widened(here), c.options), got = run(there, c.options);
  CHECK(got.forward.out.strides()[2] == c.heads * c.width);
  CHECK(got.forward.log_sum_exp.dtype() == (c.dtype == f64 ? f64 : f32));
  CHECK(error_of(got.forward.out, expected.forward.out) <= tolerance(c.dtype));
  CHECK(error_of(got.forward.log_sum_exp, expected.forward.log_sum_exp) <= (c.dtype == f64 ? 1e-13 : 5e-6));
  CHECK(error_of(got.dq, expected.dq) <= tolerance(c.dtype));
  CHECK(error_of(got.dk, expected.dk) <= tolerance(c.dtype));
  CHECK(error_of(got.dv, expected.dv) <= tolerance(c.dtype));
  CHECK(equal_bits(got, run(there, c.options)));
}

int64_t one_of(std::mt19937& random, std::initializer_list<int64_t> values) {
  return values.begin()[random() % values.size()];
}

/// All options, each with some probability.
Case random_case(std::mt19937& random, DType dtype) {
  Case c{.dtype = dtype};
  c.batch = one_of(random, {1, 1, 2, 3});
  c.shared = one_of(random, {1, 2});
  c.heads = c.shared * one_of(random, {1, 1, 2});
  c.queries = one_of(random, {1, 5, 33, 64, 70, 100, 129});
  c.keys = one_of(random, {1, 7, 40, 64, 70, 100, 131});
  c.width = one_of(random, {1, 3, 8, 16, 20, 32, 40, 64, 64, 80, 96, 128, 136});
  c.options.enable_gqa = c.heads != c.shared;
  c.options.causal = random() % 2 == 0;
  if (random() % 3 == 0) c.options.window = one_of(random, {1, 9, 50, 70});
  if (random() % 3 == 0) c.options.scale = random() % 2 == 0 ? 0.3 : -0.2;
  if (random() % 3 == 0) {
    c.options.dropout = 0.25;
    c.options.key = random();
  }
  if (random() % 3 == 0)
    for (int64_t h = 0; h < c.heads; ++h) c.options.alibi_slopes.push_back(1.0 / (1 << h));
  if (random() % 4 == 0)
    for (int64_t b = 0; b < c.batch; ++b)
      c.options.first_positions.push_back(
          static_cast<int64_t>(random() % static_cast<unsigned>(c.keys + 20)));
  if (random() % 2 == 0) c.mask = static_cast<int>(1 + random() % 4);
  c.joined = random() % 3 == 0;
  if (c.joined) c.keys = c.queries;
  return c;
}

uint64_t counter(const char* kernel, const char* name) {
  using Counter = uint64_t(const char*, const char*);
  return reinterpret_cast<Counter*>(cuda_runtime::find_symbol("tessera_cuda_sim_counter"))(kernel, name);
}

/// The kernels whose name contains `kernel` have run, take no more sectors than their bytes fill, and wait
/// for no bank.
void check_traffic(const char* kernel) {
  CAPTURE(std::string(kernel));
  CHECK(counter(kernel, "launches") > 0);
  CHECK(counter(kernel, "load_sectors") == counter(kernel, "ideal_load_sectors"));
  CHECK(counter(kernel, "store_sectors") == counter(kernel, "ideal_store_sectors"));
  CHECK(counter(kernel, "shared_wavefronts") == counter(kernel, "shared_requests"));
  CHECK(counter(kernel, "local_bytes") == 0);
  CHECK(counter(kernel, "atomics") == 0);
}

}  // namespace

TEST_CASE("cuda attention: random configurations give the CPU's results") {
  const Device device = test::device_under_test();
  std::mt19937 random(7);
  for (int i = 0; i < 30; ++i)
    for (const DType dtype : {f64, f32, bf16, f16}) {
      const Case c = random_case(random, dtype);
      check(c, 1000 + static_cast<uint64_t>(i), device);
    }
}

TEST_CASE("cuda attention: options that are vectors, longer than a launch's arguments") {
  const Device device = test::device_under_test();
  Case c{.dtype = f32, .batch = 61, .heads = 2, .shared = 1, .queries = 3, .keys = 17, .width = 8};
  c.options = {.causal = true, .dropout = 0.4, .key = 11, .enable_gqa = true, .alibi_slopes = {0.5, 0.25}};
  RandomContext context = random_context();
  for (int64_t b = 0; b < c.batch; ++b) {
    c.options.first_positions.push_back(b % 20);
    context.samples.push_back(1000 - 7 * b);
  }
  context.step = 5;
  const RandomContextScope scope(context);
  check(c, 3, device);
  Case many{.dtype = bf16, .batch = 1, .heads = 500, .shared = 500, .queries = 2, .keys = 9, .width = 8};
  for (int64_t h = 0; h < many.heads; ++h)
    many.options.alibi_slopes.push_back(1.0 / static_cast<double>(h + 1));
  const RandomContextScope none{RandomContext()};
  check(many, 4, device);
}

TEST_CASE("cuda attention: the factors of dropout are the CPU's bits") {
  const Device device = test::device_under_test();
  RandomContext context = random_context();
  context.step = 3;
  const RandomContextScope scope(context);
  for (const DType dtype : {f64, f32})
    for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{1, 2, 64, 64}, Shape{60, 1, 3, 4}}) {
      random_context().samples.clear();
      for (const bool has_samples : {false, true}) {
        if (has_samples)
          for (int64_t b = 0; b < shape[0]; ++b) random_context().samples.push_back(90 - b);
        for (const double dropout : {0.1, 0.5, 0.9999999999}) {
          const AttentionOptions options{.dropout = dropout, .key = 0x123456789abcdefull};
          CHECK(equal_bits(ops::attention_dropout(shape, options, dtype, device),
                           ops::attention_dropout(shape, options, dtype, cpu())));
        }
      }
    }
}

TEST_CASE("cuda attention: no keys, and queries without visible ones") {
  const Device device = test::device_under_test();
  for (const DType dtype : {f64, f32, bf16, f16})
    for (const int64_t keys : {0, 5}) {
      const AttentionOptions options{.causal = true, .first_positions = {0}};
      const Tensor q = heads(1, 1, 9, 32, dtype, 1).to(device),
                   k = heads(1, 1, keys, 32, dtype, 2).to(device);
      const Tensor hidden = Tensor::zeros({1, 1, 1, keys}, boolean).to(device);
      const ops::Attention result = ops::attention(q, k, k, options, keys > 0 ? hidden : Tensor());
      CHECK(error_of(result.out, Tensor::zeros({1, 1, 9, 32}, f64)) == 0);
      const Tensor log_sum_exp = to_f64(result.log_sum_exp.to(cpu()));
      for (int64_t i = 0; i < 9; ++i) {
        CHECK(log_sum_exp.data<double>()[i] == -INFINITY);
        CHECK(log_sum_exp.data<double>()[9 + i] == 0);
      }
    }
}

TEST_CASE("cuda attention: shapes of a gpt, their memory traffic and banks") {
  const Device device = test::device_under_test();
  synchronize(device);
  if (cuda_runtime::is_simulated())
    reinterpret_cast<void (*)()>(cuda_runtime::find_symbol("tessera_cuda_sim_clear_counters"))();
  for (const DType dtype : {bf16, f16, f32}) {
    Case c{.dtype = dtype, .batch = 1, .heads = 32, .shared = 32, .queries = 200, .keys = 200, .width = 64};
    c.options.causal = true;
    c.joined = true;
    check(c, 17, device);
  }
  if (!cuda_runtime::is_simulated()) return;
  for (const char* kernel :
       {"flash_forward_kernel", "flash_query_gradient_kernel", "flash_key_gradient_kernel",
        "plain_forward_kernel", "plain_query_gradient_kernel", "plain_key_gradient_kernel", "delta_kernel"})
    check_traffic(kernel);
}
