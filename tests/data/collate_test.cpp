#include "data/collate.h"

#include <doctest/doctest.h>

#include <vector>

#include "data/data_loader.h"
#include "tensor/error.h"
#include "tensor/functions.h"
#include "tests/support/error_text.h"

using namespace tessera;
using data::Example;
using data::Record;

namespace {

/// Example i: i + 1 tokens from 10 i on, and the label i.
Example sentence(int64_t i) {
  const Tensor tokens = Tensor::empty({i + 1}, i64);
  for (int64_t t = 0; t <= i; ++t) tokens.data<int64_t>()[t] = 10 * i + t;
  return {{"tokens", tokens}, {"label", Tensor::scalar(i)}};
}

std::vector<int64_t> values(const Tensor& tensor) {
  const Tensor all = tensor.contiguous();
  return {all.data<int64_t>(), all.data<int64_t>() + all.numel()};
}

const std::vector<Example> three = {sentence(0), sentence(2), sentence(1)};

}  // namespace

TEST_CASE("collate: fields that are not named are stacked") {
  const Record batch = data::collate_fields({{"tokens", data::keep_field()}})(three);
  CHECK(values(batch["label"]) == std::vector<int64_t>{0, 2, 1});
  CHECK(batch.list("tokens").size() == 3);
  CHECK(values(batch.list("tokens")[1]) == std::vector<int64_t>{20, 21, 22});
  const Record stacked =
      data::collate_fields({{"label", data::stack_field()}, {"tokens", data::pad_field()}})(three);
  CHECK(stacked["label"].shape() == Shape{3});
}

TEST_CASE("collate: sequences are padded to the longest, with a mask and lengths") {
  const Record batch = data::collate_fields(
      {{"tokens", data::pad_field({.value = -7, .mask = "padding", .lengths = "lengths"})}})(three);
  CHECK(batch["tokens"].shape() == Shape{3, 3});
  CHECK(values(batch["tokens"]) == std::vector<int64_t>{0, -7, -7, 20, 21, 22, 10, 11, -7});
  const bool* padding = batch["padding"].data<bool>();
  CHECK(batch["padding"].dtype() == boolean);
  CHECK(std::vector<bool>(padding, padding + 9) ==
        std::vector<bool>{false, true, true, false, false, false, false, false, true});
  CHECK(values(batch["lengths"]) == std::vector<int64_t>{1, 3, 2});
}

TEST_CASE("collate: padding to a multiple, cut at a largest length, of vectors") {
  const Record cut = data::collate_fields(
      {{"tokens", data::pad_field({.lengths = "lengths", .multiple_of = 4, .max_length = 2})}})(three);
  CHECK(values(cut["tokens"]) == std::vector<int64_t>{0, 0, 0, 0, 20, 21, 0, 0, 10, 11, 0, 0});
  CHECK(values(cut["lengths"]) == std::vector<int64_t>{1, 2, 2});
  const std::vector<Example> frames = {Example{{"frames", ones({1, 2})}}, Example{{"frames", ones({3, 2})}}};
  const Record padded = data::collate_fields({{"frames", data::pad_field()}})(frames);
  CHECK(padded["frames"].shape() == Shape{2, 3, 2});
  CHECK(padded["frames"].select(0, 0).select(0, 1).select(0, 0).item() == 0);
  CHECK(padded["frames"].select(0, 1).select(0, 2).select(0, 1).item() == 1);
}

TEST_CASE("collate: a function of the user's own sets any fields") {
  const auto sums = [](std::string_view name, std::span<const Tensor> all, Record& batch) {
    batch.set("number_of_" + std::string(name), Tensor::scalar(static_cast<int64_t>(all.size())));
  };
  const Record batch = data::collate_fields({{"tokens", sums}})(three);
  CHECK(batch.names() == std::vector<std::string>{"number_of_tokens", "label"});
}

TEST_CASE("collate: a loader's batches are padded, with workers too") {
  struct Sentences : data::Dataset {
    int64_t size() const override { return 5; }
    Example get(int64_t i) const override { return sentence(i); }
  };
  for (const int workers : {0, 2}) {
    data::DataLoader loader(
        Sentences(), {.batch_size = 2,
                      .workers = workers,
                      .collate = data::collate_fields({{"tokens", data::pad_field({.mask = "padding"})}})});
    std::vector<int64_t> longest;
    for (const data::Batch& batch : loader) {
      longest.push_back(batch["tokens"].size(1));
      CHECK(batch["padding"].shape() == batch["tokens"].shape());
      CHECK(batch["label"].size(0) == batch.size());
    }
    CHECK(longest == std::vector<int64_t>{2, 4, 5});
  }
}

TEST_CASE("collate: what does not fit is an error that names the field") {
  CHECK(contains(
      message_of<ShapeError>([] { data::stack_examples(three); }),
      "collate: expected 'tokens' of one shape in all examples of a batch, got (1,) and (3,); pad it"));
  CHECK(message_of<DataError>([] { data::stack_examples({}); }) ==
        "collate: expected at least one example, got none");
  const std::vector<Example> mixed = {sentence(0), Example(Tensor::zeros({1}))};
  CHECK(message_of<DataError>([&] { data::stack_examples(mixed); }) ==
        "collate: expected the same fields in all examples of a batch, got tokens, label and x");
  const std::vector<Example> none(2);
  CHECK(contains(message_of<DataError>([&] { data::stack_examples(none); }), "got examples without any"));
  CHECK(message_of<DataError>([] {
          data::collate_fields({{"token", data::pad_field()}})(three);
        }) == "collate_fields: no field 'token' in the examples; they have tokens, label");
  CHECK(contains(message_of<ValueError>([] { data::collate_fields({{"a", nullptr}}); }), "got none"));
  CHECK(contains(message_of<ValueError>([] {
                   data::collate_fields({{"a", data::keep_field()}, {"a", data::keep_field()}});
                 }),
                 "got 'a' twice"));
  CHECK_THROWS_AS(data::pad_field({.multiple_of = 0}), ConfigError);
  CHECK_THROWS_AS(data::pad_field({.max_length = -1}), ConfigError);
  CHECK(
      contains(message_of<ShapeError>([] {
                 data::collate_fields({{"tokens", data::keep_field()}, {"label", data::pad_field()}})(three);
               }),
               "pad_field: expected 'label' of shape (length, ...)"));
  const std::vector<Example> uneven = {Example(Tensor::zeros({1, 2})), Example(Tensor::zeros({1, 3}))};
  CHECK(contains(message_of<ShapeError>([&] {
                   data::collate_fields({{"x", data::pad_field()}})(uneven);
                 }),
                 "got (1, 2) and (1, 3)"));
  const std::vector<Example> types = {Example(Tensor::zeros({1})), Example(Tensor::zeros({1}, i64))};
  CHECK_THROWS_AS(data::collate_fields({{"x", data::pad_field()}})(types), DTypeError);
}
