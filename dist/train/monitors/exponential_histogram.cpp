#include "dist/train/monitors/exponential_histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::training {
namespace {

constexpr int64_t chunk = 1 << 16;  // elements that are converted to f64 at a time

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

const std::vector<double>& limits() {
  static const std::vector<double> result = make_limits();
  return result;
}

void add_value(double value, ExponentialHistogram& histogram, std::vector<double>& counts) {
  if (!std::isfinite(value)) {
    ++histogram.non_finite;
    return;
  }
  histogram.min = histogram.count == 0 ? value : std::min(histogram.min, value);
  histogram.max = histogram.count == 0 ? value : std::max(histogram.max, value);
  histogram.count += 1;
  histogram.sum += value;
  histogram.sum_squares += value * value;
  const auto above = std::upper_bound(limits().begin(), limits().end() - 1, value);
  counts[static_cast<size_t>(above - limits().begin())] += 1;
}

void join_empty_buckets(const std::vector<double>& counts, ExponentialHistogram& histogram) {
  if (histogram.count == 0) {
    histogram.bucket_limits = {std::numeric_limits<double>::max()};
    histogram.bucket_counts = {0};
    return;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const bool is_joined = counts[i] == 0 && i + 1 < counts.size() && counts[i + 1] == 0;
    if (is_joined) continue;
    histogram.bucket_limits.push_back(limits()[i]);
    histogram.bucket_counts.push_back(counts[i]);
  }
}

}  // namespace

ExponentialHistogram exponential_histogram(const Tensor& values) {
  ExponentialHistogram histogram;
  std::vector<double> counts(limits().size());
  const Tensor flat = values.to(cpu()).reshape({-1});
  for (int64_t begin = 0; begin < flat.numel(); begin += chunk) {
    const Tensor part = flat.slice(0, begin, std::min(begin + chunk, flat.numel())).to(f64).contiguous();
    const double* elements = part.data<double>();
    for (int64_t i = 0; i < part.numel(); ++i) add_value(elements[i], histogram, counts);
  }
  join_empty_buckets(counts, histogram);
  return histogram;
}

}  // namespace tessera::training
