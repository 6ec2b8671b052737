#include "data/record.h"

#include <doctest/doctest.h>

#include <vector>

#include "data/batch.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using data::Record;

TEST_CASE("record: fields by name, x and y as members too") {
  const Tensor ids = Tensor::from({3, 4, 5}), label = Tensor::scalar(int64_t{1});
  Record named{{"tokens", ids}, {"label", label}};
  CHECK(named.names() == std::vector<std::string>{"tokens", "label"});
  CHECK(named["tokens"].shares_storage(ids));
  CHECK(!named.x.defined());
  const Record pair(ids, label);
  CHECK(pair.names() == std::vector<std::string>{"x", "y"});
  CHECK(pair["y"].shares_storage(pair.y));
  named.set("x", label);
  CHECK(named.x.shares_storage(label));
  CHECK(named.names() == std::vector<std::string>{"x", "tokens", "label"});
  named.set("tokens", label);
  CHECK(named["tokens"].shares_storage(label));
  CHECK(named.has("label"));
  CHECK(!named.has("y"));
  CHECK(Record(ids).names() == std::vector<std::string>{"x"});
}

TEST_CASE("record: a list holds tensors of any shapes") {
  Record record;
  record.set_list("words", {Tensor::zeros({2}), Tensor::zeros({3})});
  CHECK(record.list("words")[1].numel() == 3);
  CHECK(record.names() == std::vector<std::string>{"words"});
  CHECK(record.fields().empty());
  CHECK(message_of<DataError>([&] { record["words"]; }) ==
        "record: 'words' is a list of tensors; take it by list(\"words\")");
  record.set("words", Tensor::zeros({1}));  // replaces the list
  CHECK(record["words"].numel() == 1);
  CHECK_THROWS_AS(record.list("words"), DataError);
  record.set_list("words", {});
  CHECK(record.fields().empty());
}

TEST_CASE("record: names that are missing, empty or twice, and undefined tensors are errors") {
  Record record{{"tokens", Tensor::zeros({2})}, {"mask", Tensor::zeros({2})}};
  CHECK(message_of<DataError>([&] { record["maks"]; }) == "record: no field 'maks'; it has tokens, mask");
  CHECK(message_of<DataError>([] { Record()["x"]; }) == "record: no field 'x'; it has no fields");
  CHECK(message_of<ValueError>([&] { record.set("", Tensor::zeros({2})); }) ==
        "record: expected a name for each field, got an empty one");
  CHECK(message_of<ValueError>([&] { record.set("more", Tensor()); }) ==
        "record: expected a tensor for the field 'more', got an undefined one");
  CHECK(contains(message_of<ValueError>([] {
                   Record{{"a", Tensor::zeros({1})}, {"a", Tensor::zeros({1})}};
                 }),
                 "got two of 'a'"));
  CHECK(contains(message_of<DataError>([&] { data::get<0>(record); }),
                 "expected the fields x and y, got tokens, mask"));
}

TEST_CASE("record: a device, and a change of every tensor") {
  Record record{{"a", Tensor::zeros({2})}};
  record.set_list("b", {Tensor::zeros({3}), Tensor::zeros({4})});
  CHECK(record.to(cpu())["a"].shares_storage(record["a"]));
  std::vector<std::string> seen;
  const Record twice = record.map([&](std::string_view name, const Tensor& value) {
    seen.emplace_back(name);
    return Tensor::zeros({2 * value.numel()});
  });
  CHECK(seen == std::vector<std::string>{"a", "b", "b"});
  CHECK(twice["a"].numel() == 4);
  CHECK(twice.list("b")[1].numel() == 8);
}

TEST_CASE("batch: micro-batches of all fields and lists") {
  data::Batch batch;
  batch.samples = {4, 5, 6};
  batch.items = {40, 50, -1};
  batch.set("tokens", Tensor::from({0, 1, 2, 3, 4, 5}).reshape({3, 2}));
  batch.set("temperature", Tensor::scalar(0.5f));
  batch.set_list("words", {Tensor::zeros({1}), Tensor::zeros({2}), Tensor::zeros({3})});
  batch.total_unpadded_size = 2;
  const data::Batch micro = batch.micro_batch(1, 2);
  CHECK(micro["tokens"].shares_storage(batch["tokens"]));
  CHECK(micro["tokens"].shape() == Shape{2, 2});
  CHECK(micro["temperature"].item() == 0.5);
  CHECK(micro.list("words")[0].numel() == 2);
  CHECK(micro.samples == std::vector<int64_t>{5, 6});
  CHECK(micro.unpadded_size() == 1);
  CHECK(micro.total_unpadded_size == 2);
  const data::Batch moved = batch.to(cpu());
  CHECK(moved.samples == batch.samples);
  CHECK(moved["tokens"].shares_storage(batch["tokens"]));
  batch.set("short", Tensor::zeros({2}));
  CHECK(message_of<ShapeError>([&] { batch.micro_batch(0, 1); }) ==
        "batch of step 0: expected 3 rows in the field 'short', one for each sample, got 2");
}
