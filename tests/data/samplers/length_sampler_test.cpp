#include "data/samplers/length_sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "data/samplers/sampler.h"
#include "tensor/error.h"

using namespace tessera;
using data::LengthSampler;

namespace {

/// Lengths in a mixed order: 37 i modulo 101.
std::vector<int64_t> mixed_lengths(int64_t n) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < n; ++i) lengths.push_back(37 * i % 101);
  return lengths;
}

/// Elements that padding to the longest of each batch adds in an epoch.
int64_t padding_of(const data::Sampler& order, const std::vector<int64_t>& lengths, int64_t batch_size) {
  int64_t padding = 0;
  for (int64_t first = 0; first < order.size(); first += batch_size) {
    const int64_t last = std::min(first + batch_size, order.size());
    int64_t longest = 0, used = 0;
    for (int64_t i = first; i < last; ++i) {
      const int64_t length = lengths[static_cast<size_t>(order.at(0, i))];
      longest = std::max(longest, length);
      used += length;
    }
    padding += longest * (last - first) - used;
  }
  return padding;
}

}  // namespace

TEST_CASE("length sampler: every example once, with far less padding than at random") {
  const std::vector<int64_t> lengths = mixed_lengths(1003);
  const LengthSampler sampler(lengths, {.batch_size = 8, .batches_per_group = 10});
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < sampler.size(); ++i) seen.insert(sampler.at(epoch, i));
    CHECK(seen.size() == 1003);
  }
  const data::RandomSampler random(1003, 1337);
  CHECK(5 * padding_of(sampler, lengths, 8) < padding_of(random, lengths, 8));
  // All batches in one group: each holds neighbours of the order by length.
  const LengthSampler one_group(lengths, {.batch_size = 8, .batches_per_group = 1000});
  CHECK(padding_of(one_group, lengths, 8) < padding_of(sampler, lengths, 8));
}

TEST_CASE("length sampler: the batches come in another order each epoch, an incomplete one at the end") {
  const std::vector<int64_t> lengths = mixed_lengths(101);  // all different
  const LengthSampler sampler(lengths, {.batch_size = 10, .batches_per_group = 100});
  CHECK(lengths[static_cast<size_t>(sampler.at(0, 100))] == 0);  // the shortest is left over
  int same = 0;
  for (int64_t i = 0; i < 100; ++i) same += sampler.at(0, i) == sampler.at(1, i);
  CHECK(same < 50);
  const LengthSampler again(lengths, {.batch_size = 10, .batches_per_group = 100});
  for (int64_t i = 100; i >= 0; --i) CHECK(again.at(7, i) == sampler.at(7, i));
}

TEST_CASE("length sampler: in order, the longest first") {
  const LengthSampler sampler({3, 9, 3, 5}, {.batch_size = 2, .shuffle = false});
  std::vector<int64_t> order;
  for (int64_t i = 0; i < 4; ++i) order.push_back(sampler.at(5, i));
  CHECK(order == std::vector<int64_t>{1, 3, 0, 2});
}

TEST_CASE("length sampler: the ranks share its batches") {
  const auto lengths = mixed_lengths(64);
  const auto sampler = std::make_shared<LengthSampler>(lengths, LengthSampler::Options{.batch_size = 8});
  std::vector<int64_t> together;
  const data::DistributedSampler first(sampler, {.rank = 0, .world_size = 2, .batch_size = 8}),
      second(sampler, {.rank = 1, .world_size = 2, .batch_size = 8});
  for (int64_t batch = 0; batch < 8; ++batch)
    for (const auto* rank : {&first, &second})
      for (int64_t i = 0; i < 4; ++i) together.push_back(rank->at(1, 4 * batch + i));
  for (int64_t i = 0; i < 64; ++i) CHECK(together[static_cast<size_t>(i)] == sampler->at(1, i));
}

TEST_CASE("length sampler: options out of range") {
  CHECK_THROWS_WITH_AS(LengthSampler({1}, {.batch_size = 0}),
                       "length sampler: expected a batch_size of at least 1, got 0", ConfigError);
  CHECK_THROWS_AS(LengthSampler({1}, {.batches_per_group = 0}), ConfigError);
  CHECK_THROWS_AS(LengthSampler({1}, {}).at(0, 1), IndexError);
  CHECK(LengthSampler({}, {}).size() == 0);
}
