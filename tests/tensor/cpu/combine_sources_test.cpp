#include "tensor/cpu/combine_sources.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/cpu/isa.h"
#include "tensor/tensor.h"
#include "tensor/types/accumulator.h"
#include "tensor/types/dtype_switch.h"

namespace {

using namespace tessera;
using kernels::cpu::Combination;
using kernels::cpu::combine_sources;

constexpr DType dtypes[] = {f64, f32, bf16, f16, i64, i32, u8, boolean};
constexpr Combination combinations[] = {Combination::sum, Combination::mean, Combination::smallest,
                                        Combination::largest};

std::vector<Tensor> sources_of(DType dtype, int count, int64_t n) {
  std::vector<Tensor> sources;
  for (int s = 0; s < count; ++s) {
    const Tensor& x = sources.emplace_back(Tensor::empty({n}, dtype));
    with_any(dtype, [&]<class T>(TypeTag<T>) {
      for (int64_t i = 0; i < n; ++i) {
        const double value = 1.0 / static_cast<double>(1 + (i * 37 + s * 11) % 101) * ((i + s) % 2 ? 1 : -1);
        if constexpr (std::is_same_v<T, bool>)
          x.data<T>()[i] = value > 0;
        else if constexpr (std::is_integral_v<T>)
          x.data<T>()[i] = static_cast<T>(std::abs(value) * 60);
        else
          x.data<T>()[i] = T(static_cast<float>(value));
      }
    });
  }
  return sources;
}

std::vector<const void*> addresses(const std::vector<Tensor>& tensors) {
  std::vector<const void*> result;
  for (const Tensor& x : tensors) result.push_back(x.raw_data());
  return result;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0);
}

/// One element, combined from the first source to the last, as the header promises.
template <class T>
T combined(Combination combination, const std::vector<Tensor>& sources, int64_t i) {
  using A = accumulator_of<T>;
  const auto at = [&](size_t s) { return static_cast<A>(sources[s].data<T>()[i]); };
  A a = at(0);
  for (size_t s = 1; s < sources.size(); ++s) {
    if (combination == Combination::smallest)
      a = std::min(a, at(s));
    else if (combination == Combination::largest)
      a = std::max(a, at(s));
    else
      a += at(s);
  }
  if (combination == Combination::mean) a /= static_cast<A>(sources.size());
  if constexpr (std::is_same_v<T, bool>)
    return a != 0;
  else
    return T(a);
}

Tensor expected_of(DType dtype, Combination combination, const std::vector<Tensor>& sources) {
  const Tensor result = Tensor::empty_like(sources[0]);
  with_any(dtype, [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < result.numel(); ++i) result.data<T>()[i] = combined<T>(combination, sources, i);
  });
  return result;
}

}  // namespace

TEST_CASE(
    "combine_sources: in order, accumulated in a wider type and rounded once, for any number of arrays") {
  for (const DType dtype : dtypes)
    for (const Combination combination : combinations)
      for (const int count : {1, 2, 3, 4, 5, 8, 13})
        for (const int64_t n : {0, 1, 15, 63, 1024, 1025, 5000}) {
          const std::vector<Tensor> sources = sources_of(dtype, count, n);
          const Tensor expected = expected_of(dtype, combination, sources), out = Tensor::empty({n}, dtype);
          combine_sources(dtype, combination, addresses(sources), out.raw_data(), n);
          CHECK(same_bytes(out, expected));
          // Into the second array, as an all_reduce does.
          const Tensor& second = sources[count > 1 ? 1 : 0];
          combine_sources(dtype, combination, addresses(sources), second.raw_data(), n);
          CHECK(same_bytes(second, expected));
        }
}

TEST_CASE("combine_sources: more than a thousand arrays") {
  for (const DType dtype : {f32, i64}) {
    const std::vector<Tensor> sources = sources_of(dtype, 1500, 3);
    const Tensor out = Tensor::empty({3}, dtype);
    combine_sources(dtype, Combination::sum, addresses(sources), out.raw_data(), 3);
    CHECK(same_bytes(out, expected_of(dtype, Combination::sum, sources)));
  }
}

TEST_CASE("combine_sources: every instruction set gives the same bits, at any alignment of the arrays") {
  const std::vector<Tensor> sources = sources_of(bf16, 3, 3000);
  const Tensor expected = Tensor::empty({3000}, bf16), out = Tensor::empty({3000}, bf16);
  combine_sources(bf16, Combination::mean, addresses(sources), expected.raw_data(), 3000);
  for (const kernels::cpu::Isa isa :
       {kernels::cpu::Isa::baseline, kernels::cpu::Isa::avx2, kernels::cpu::Isa::avx512}) {
    const kernels::cpu::IsaScope scope(isa);
    for (const int64_t first : {0, 1, 7, 33}) {
      std::vector<const void*> shifted;
      for (const Tensor& x : sources) shifted.push_back(x.data<bfloat16>() + first);
      combine_sources(bf16, Combination::mean, shifted, out.data<bfloat16>() + first, 3000 - first);
      CHECK(same_bytes(out.narrow(0, first, 3000 - first), expected.narrow(0, first, 3000 - first)));
    }
  }
}

TEST_CASE("combine_sources: long arrays are divided among threads, and a NaN stays a NaN") {
  const int64_t n = 1'000'003;
  const std::vector<Tensor> sources = sources_of(f32, 2, n);
  sources[1].data<float>()[n - 1] = std::numeric_limits<float>::quiet_NaN();
  sources[0].data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  for (const Combination combination : combinations) {
    const Tensor out = Tensor::empty({n}, f32);
    combine_sources(f32, combination, addresses(sources), out.raw_data(), n);
    CHECK(std::isnan(out.data<float>()[3]));
    CHECK(std::isnan(out.data<float>()[n - 1]));
    CHECK(out.data<float>()[n - 2] == combined<float>(combination, sources, n - 2));
  }
  CHECK_THROWS_AS(combine_sources(f32, Combination::sum, {}, nullptr, 0), ValueError);
}
