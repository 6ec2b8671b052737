#include "tensor/random/sample_layout.h"

#include <doctest/doctest.h>

#include <vector>

#include "tensor/error.h"

using namespace tessera;

namespace {

/// The sample of each element of a tensor of shape `shape`, in row-major order.
std::vector<int64_t> samples_of_elements(const SampleLayout& layout, const Shape& shape) {
  int64_t below = 1;
  for (int d = layout.dim + 1; d < shape.ndim(); ++d) below *= shape[d];
  const int64_t samples = count_samples(layout, shape);
  std::vector<int64_t> result;
  for (int64_t i = 0; i < shape.numel(); ++i)
    result.push_back(i / below % shape[layout.dim] / layout.inner % samples);
  return result;
}

std::vector<SampleLayout> layouts(const Shape& shape) {
  std::vector<SampleLayout> all;
  for (int d = 0; d < shape.ndim(); ++d)
    for (int64_t outer = 1; outer <= shape[d]; ++outer)
      for (int64_t inner = 1; inner * outer <= shape[d]; ++inner)
        if (shape[d] % (outer * inner) == 0) all.push_back(samples_along(d, inner, outer));
  return all;
}

std::vector<Shape> shapes(int64_t numel) {
  std::vector<Shape> all = {{numel}};
  for (int64_t a = 1; a <= numel; ++a) {
    if (numel % a) continue;
    all.push_back({a, numel / a});
    for (int64_t b = 1; b <= numel / a; ++b)
      if (numel / a % b == 0) all.push_back({a, b, numel / a / b});
  }
  return all;
}

}  // namespace

TEST_CASE("sample layout: after a reshape every element has the sample that it had") {
  int kept = 0, lost = 0;
  for (const int64_t numel : {1, 6, 12, 16})
    for (const Shape& from : shapes(numel))
      for (const SampleLayout& layout : layouts(from)) {
        const auto samples = samples_of_elements(layout, from);
        for (const Shape& to : shapes(numel)) {
          const SampleLayout after = reshaped(layout, from, to);
          CAPTURE(from);
          CAPTURE(to);
          if (after.kind == SampleLayout::Kind::along) {
            ++kept;
            CHECK(samples_of_elements(after, to) == samples);
          } else {
            ++lost;
            if (count_samples(layout, from) > 1)
              for (const SampleLayout& other : layouts(to)) CHECK(samples_of_elements(other, to) != samples);
          }
        }
      }
  CHECK(kept > 0);
  CHECK(lost > 0);
}
