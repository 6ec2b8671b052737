#include "data/datasets/subsets.h"

#include <doctest/doctest.h>

#include <set>

#include "data/data_loader.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;

namespace {

std::shared_ptr<const data::Dataset> counting(int64_t first, int64_t count) {
  const Tensor x = Tensor::empty({count}, i64);
  for (int64_t i = 0; i < count; ++i) x.data<int64_t>()[i] = first + i;
  return std::make_shared<const data::TensorDataset>(data::Record{{"x", x}});
}

int64_t value(const data::Dataset& dataset, int64_t i) {
  return dataset.get(i).x.item_i64();
}

}  // namespace

TEST_CASE("subset: examples by their indices") {
  const data::Subset subset(counting(100, 10), {9, 0, 9});
  CHECK(subset.size() == 3);
  CHECK(value(subset, 0) == 109);
  CHECK(value(subset, 1) == 100);
  CHECK(value(subset, 2) == 109);
  CHECK(message_of<IndexError>([] { data::Subset(counting(0, 3), {3}); }) ==
        "Subset of dataset: expected indices in [0, 3), got 3");
  CHECK_THROWS_AS(data::Subset(nullptr, {}), ConfigError);
}

TEST_CASE("concat: one dataset after another, empty ones too") {
  const data::ConcatDataset all({counting(0, 2), counting(50, 0), counting(100, 3)});
  CHECK(all.size() == 5);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 5; ++i) values.push_back(value(all, i));
  CHECK(values == std::vector<int64_t>{0, 1, 100, 101, 102});
  CHECK_THROWS_AS(all.get(5), IndexError);
  CHECK_THROWS_AS(all.get(-1), IndexError);
  CHECK_THROWS_AS(data::ConcatDataset({}), ConfigError);
  CHECK_THROWS_AS(data::ConcatDataset({nullptr}), ConfigError);
}

TEST_CASE("random split: parts without a common example, by lengths and by fractions") {
  const auto dataset = counting(0, 103);
  const std::vector<double> fractions = {0.5, 0.3, 0.2};
  const std::vector<int64_t> lengths = {100, 3};
  const auto check = [&](const auto& parts, const std::vector<int64_t>& sizes) {
    std::set<int64_t> seen;
    for (size_t i = 0; i < parts.size(); ++i) {
      CHECK(parts[i]->size() == sizes[i]);
      for (const int64_t index : parts[i]->indices()) seen.insert(index);
    }
    CHECK(seen.size() == 103);
  };
  check(data::random_split(dataset, fractions), {52, 31, 20});  // 51.5, 30.9, 20.6: two left over
  check(data::random_split(dataset, lengths), {100, 3});
  const auto a = data::random_split(dataset, lengths, 7), b = data::random_split(dataset, lengths, 8);
  CHECK(std::vector<int64_t>(a[0]->indices().begin(), a[0]->indices().end()) !=
        std::vector<int64_t>(b[0]->indices().begin(), b[0]->indices().end()));
  data::DataLoader loader(a[1], {.batch_size = 2});
  CHECK(loader.size() == 2);
}

TEST_CASE("random split: lengths and fractions that do not add up") {
  const auto dataset = counting(0, 10);
  const auto problem = [&]<class T>(std::vector<T> parts) {
    return message_of<ConfigError>([&] { data::random_split(dataset, std::span<const T>(parts)); });
  };
  CHECK(problem(std::vector<int64_t>{4, 5}) ==
        "random_split: expected lengths that add up to 10, the size of dataset, got 9");
  CHECK(contains(problem(std::vector<int64_t>{8, 3}), "got 3 after 8"));
  CHECK(contains(problem(std::vector<int64_t>{11, -1}), "got 11 after 0"));
  CHECK(contains(problem(std::vector<double>{0.5, 0.4}), "got a sum of 0.9"));
  CHECK(contains(problem(std::vector<double>{1.5, -0.5}), "fractions in [0, 1]"));
}
