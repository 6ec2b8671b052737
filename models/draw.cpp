// A draw takes the id at which the weights, summed from the likeliest id on, pass a random share of their
// total. No row is sorted: ids are counted into buckets of nearly equal likelihood, and only the bucket in
// which the sum ends is put in order.

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/sampling.h"
#include "tensor/error.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/reduction.h"
#include "tensor/random/philox.h"
#include "tensor/threads/parallel.h"

namespace tessera::models {
namespace {

/// Ids before a place in the order of likelihood: all of the buckets before `bucket`, and the first `count`
/// of that one.
struct Place {
  int64_t bucket = 0, count = 0;
};

/// The ids of a row in the order of likelihood: falling scores, ids of equal scores rising.
class Ranking {
 public:
  /// `weights[i]` is exp((scores[i] - largest) / temperature).
  Ranking(std::span<const double> scores, std::span<const double> weights, double largest, double temperature)
      : scores_(scores), weights_(weights), bucket_of_(scores.size()) {
    const double factor = std::min(buckets_per_unit / temperature, std::numeric_limits<double>::max());
    const double last = buckets - 1;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double distance = (largest - scores[i]) * factor;
      // The last one, also where it is not a number.
      bucket_of_[i] = static_cast<int>(distance < last ? distance : last);
    }
    for (size_t i = 0; i < scores.size(); ++i) {
      ++counts_[bucket_of_[i]];
      masses_[bucket_of_[i]] += weights[i];
    }
  }

  /// The place after all ids.
  Place end() const { return {buckets, 0}; }

  /// The sum of the weights before a place.
  double mass_before(const Place& place) {
    double mass = 0;
    for (int64_t b = 0; b < place.bucket; ++b) mass += masses_[b];
    if (place.count > 0)
      for (int64_t i = 0; i < place.count; ++i) mass += weight(ordered(place.bucket)[i]);
    return mass;
  }

  /// The place after the first k ids.
  Place after_count(int64_t k) const {
    Place place;
    while (place.bucket < buckets && k >= counts_[place.bucket]) k -= counts_[place.bucket++];
    return place.bucket < buckets ? Place{place.bucket, k} : end();
  }

  /// The place after the id with which the sum of weights passes `mass`; `last` where it does not before.
  Place after_mass(double mass, const Place& last) {
    for (int64_t b = 0; b <= last.bucket && b < buckets; ++b) {
      if (b < last.bucket && mass - masses_[b] >= 0) {
        mass -= masses_[b];
        continue;
      }
      const std::vector<int64_t>& ids = ordered(b);
      const int64_t count = b < last.bucket ? counts_[b] : last.count;
      for (int64_t i = 0; i < count; ++i)
        if ((mass -= weight(ids[static_cast<size_t>(i)])) < 0) return {b, i + 1};
    }
    return last;
  }

  /// The id before a place, which is not the first.
  int64_t id_before(Place place) {
    while (place.count == 0) --place.bucket, place.count = counts_[place.bucket];
    return ordered(place.bucket)[static_cast<size_t>(place.count - 1)];
  }

 private:
  // Up to a weight of exp(-40), which no draw of 53 bits reaches.
  static constexpr int buckets = 2048;
  static constexpr double buckets_per_unit = buckets / 40.0;

  double weight(int64_t id) const { return weights_[static_cast<size_t>(id)]; }

  const std::vector<int64_t>& ordered(int64_t bucket) {
    if (ordered_bucket_ == bucket) return ids_;
    ordered_bucket_ = bucket;
    ids_.clear();
    for (size_t i = 0; i < bucket_of_.size(); ++i)
      if (bucket_of_[i] == bucket) ids_.push_back(static_cast<int64_t>(i));
    const double* const scores = scores_.data();
    std::sort(ids_.begin(), ids_.end(), [scores](int64_t a, int64_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    });
    return ids_;
  }

  std::span<const double> scores_, weights_;
  std::vector<int> bucket_of_;
  int counts_[buckets] = {};
  double masses_[buckets] = {};
  int64_t ordered_bucket_ = -1;
  std::vector<int64_t> ids_;  ///< of `ordered_bucket_`, in order
};

int64_t draw_row(std::span<const double> scores, std::span<const double> weights, double largest,
                 const SamplingOptions& options, double uniform) {
  Ranking ranking(scores, weights, largest, options.temperature);
  const bool has_top_k = options.top_k > 0 && options.top_k < std::ssize(scores);
  Place last = has_top_k ? ranking.after_count(options.top_k) : ranking.end();
  double mass = ranking.mass_before(last);
  if (options.top_p < 1) {
    last = ranking.after_mass(options.top_p * mass, last);
    mass = ranking.mass_before(last);
  }
  return ranking.id_before(ranking.after_mass(uniform * mass, last));
}

}  // namespace

std::vector<int64_t> draw(const Tensor& logits, const SamplingOptions& options, int64_t position,
                          std::span<const int64_t> rows) {
  require<ShapeError>(logits.ndim() == 2 && logits.size(0) == std::ssize(rows),
                      "sampling: expected logits (R, V) and R rows, got ", logits.shape(), " and ",
                      rows.size());
  const Tensor given = logits.to(cpu()).contiguous(), scores = ops::cast(given, f64),
               largest = ops::cast(ops::max(given, {-1}, true), f64);
  const int64_t count = scores.size(0), width = scores.size(1);
  for (int64_t i = 0; i < count; ++i)
    require<ValueError>(std::isfinite(largest.data<double>()[i]), "sampling: the largest logit is ",
                        largest.data<double>()[i], "; the model's weights or activations are not finite");
  std::vector<int64_t> ids(static_cast<size_t>(count));
  const auto row_of = [width](const Tensor& x, int64_t i) {
    return std::span(x.data<double>() + i * width, static_cast<size_t>(width));
  };
  if (options.temperature == 0) {
    for (int64_t i = 0; i < count; ++i) {
      const std::span<const double> row = row_of(scores, i);
      ids[static_cast<size_t>(i)] =
          std::find(row.begin(), row.end(), largest.data<double>()[i]) - row.begin();
    }
    return ids;
  }
  const Tensor weights = ops::exp(ops::div(ops::sub(scores, largest), options.temperature));
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto block = elementwise::random_block(options.seed, static_cast<uint64_t>(position),
                                                   static_cast<uint32_t>(rows[static_cast<size_t>(i)]), 0);
      ids[static_cast<size_t>(i)] = draw_row(row_of(scores, i), row_of(weights, i), largest.data<double>()[i],
                                             options, elementwise::uniform_f64(block.word[0], block.word[1]));
    }
  });
  return ids;
}

int64_t draw(const Tensor& logits, const SamplingOptions& options, int64_t position) {
  const int64_t row = 0;
  return draw(logits.unsqueeze(0), options, position, std::span(&row, 1))[0];
}

}  // namespace tessera::models
