#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// The positions of a range's elements by the definition: the box's row-major order, cut to [begin, end).
std::vector<int64_t> positions_by_definition(const TensorRange& range, const Shape& shape) {
  const Strides box = contiguous_strides(range.extent), full = contiguous_strides(shape);
  std::vector<int64_t> positions;
  for (int64_t i = range.begin; i < range.end; ++i) {
    int64_t rest = i, position = 0;
    for (int d = 0; d < shape.ndim(); ++d) {
      position += (range.start[d] + rest / box[d]) * full[d];
      rest %= box[d];
    }
    positions.push_back(position);
  }
  return positions;
}

/// A copy of the elements of `full` in a range.
Tensor values_in(const Tensor& full, const TensorRange& range) {
  Tensor values = Tensor::empty({range.numel()}, f32);
  const std::vector<int64_t> positions = positions_by_definition(range, full.shape());
  for (size_t i = 0; i < positions.size(); ++i) values.data<float>()[i] = full.data<float>()[positions[i]];
  return values;
}

TensorShard shard_of(const std::string& name, const Tensor& tensor, const TensorRange& range) {
  return {name, tensor.shape(), range, values_in(tensor, range)};
}

/// The bounds of `count` ranges of uneven length, some of them empty, that cover [0, n).
std::vector<int64_t> uneven_bounds(int64_t n, int count, std::mt19937& random) {
  std::vector<int64_t> bounds{0, n};
  for (int i = 1; i < count; ++i)
    bounds.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1)));
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

/// Publishes what each rank wrote; the records are sent as text, as between processes.
std::string publish(const std::string& root, const std::vector<std::vector<TensorShard>>& ranks) {
  CheckpointWriter writer(root, 1);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const FileRecord record =
        write_shards(writer.folder(), "model-" + std::to_string(rank) + ".safetensors", "model", ranks[rank]);
    writer.add(parse_file_record(to_json(record), "rank"));
  }
  return writer.publish(state_at(1));
}

std::vector<ContiguousRange> contiguous_ranges(const TensorRange& range, const Shape& shape) {
  std::vector<ContiguousRange> result;
  for (RangeCursor cursor(range, shape); !cursor.is_done(); cursor.next()) result.push_back(cursor.current());
  return result;
}

}  // namespace

TEST_CASE("range: its contiguous ranges are the elements of the definition, in order") {
  const Shape shape{3, 4, 5};
  const TensorRange ranges[] = {full_range(shape),
                                flat_range(shape, 7, 31),
                                {{0, 1, 0}, {3, 2, 5}, 0, 30},
                                {{1, 0, 2}, {2, 4, 3}, 5, 23},
                                {{2, 3, 4}, {1, 1, 1}, 0, 1},
                                {{0, 0, 1}, {3, 4, 2}, 3, 3}};
  for (const TensorRange& range : ranges) {
    REQUIRE(problem_of(range, shape) == "");
    std::vector<int64_t> positions;
    for (const ContiguousRange& contiguous : contiguous_ranges(range, shape)) {
      CHECK(contiguous.offset == static_cast<int64_t>(positions.size()));
      for (int64_t i = 0; i < contiguous.length; ++i) positions.push_back(contiguous.position + i);
    }
    CHECK(positions == positions_by_definition(range, shape));
    for (int64_t position = 0; position <= shape.numel(); ++position) {
      RangeCursor cursor(range, shape);
      cursor.skip_to(position);
      const auto expected = std::upper_bound(positions.begin(), positions.end(), position - 1);
      REQUIRE(cursor.is_done() == (expected == positions.end()));
      if (cursor.is_done()) continue;
      CHECK(cursor.current().position <= *expected);
      CHECK(cursor.current().position + cursor.current().length > *expected);
    }
  }
  CHECK(contiguous_ranges(full_range(shape), shape).size() == 1);
  CHECK(contiguous_ranges(full_range({}), {}).size() == 1);
  CHECK(contiguous_ranges({{0, 1, 0}, {3, 2, 5}, 0, 30}, shape).size() == 3);
}

TEST_CASE("range: boxes and ranges outside the tensor are refused") {
  CHECK(problem_of({{0}, {4}, 0, 4}, {4}) == "");
  CHECK(problem_of({{1}, {4}, 0, 4}, {4}) != "");
  CHECK(problem_of({{-1}, {2}, 0, 2}, {4}) != "");
  CHECK(problem_of({{0}, {4}, 0, 5}, {4}) != "");
  CHECK(problem_of({{0}, {4}, 3, 2}, {4}) != "");
  CHECK(problem_of({{0, 0}, {4, 1}, 0, 4}, {4}) != "");
  CHECK(problem_of({{INT64_MAX}, {1}, 0, 1}, {4}) != "");
}

TEST_CASE("checkpoint: any number of writers with uneven flat shards, any ranges read") {
  std::mt19937 random(1);
  const Tensor weight = numbered({7, 5}, 1), bias = numbered({11}, 2), scalar = numbered({}, 3);
  for (int writers : {1, 2, 3, 5}) {
    const TemporaryFolder folder;
    std::vector<std::vector<TensorShard>> ranks(static_cast<size_t>(writers));
    for (const auto& [name, tensor] :
         {std::pair<std::string, Tensor>{"w", weight}, {"b", bias}, {"s", scalar}}) {
      const std::vector<int64_t> bounds = uneven_bounds(tensor.numel(), writers, random);
      for (size_t rank = 0; rank < ranks.size(); ++rank)
        ranks[rank].push_back(
            shard_of(name, tensor, flat_range(tensor.shape(), bounds[rank], bounds[rank + 1])));
    }
    const CheckpointReader reader(publish(folder.path(), ranks));
    const TensorGroup model{
        "model",
        {{"w", Tensor::zeros({7, 5}, f32)}, {"b", Tensor::zeros({11}, f32)}, {"s", Tensor::zeros({}, f32)}}};
    load_checkpoint(reader, std::span(&model, 1));
    CHECK(same_bits(model.tensors[0].tensor, weight));
    CHECK(same_bits(model.tensors[1].tensor, bias));
    CHECK(same_bits(model.tensors[2].tensor, scalar));
    for (int readers : {1, 2, 4}) {
      const std::vector<int64_t> bounds = uneven_bounds(weight.numel(), readers, random);
      for (size_t r = 0; r + 1 < bounds.size(); ++r) {
        const TensorRange range = flat_range({7, 5}, bounds[r], bounds[r + 1]);
        const Tensor out = Tensor::zeros({range.numel()}, f32);
        reader.read({"model", "w"}, range, out);
        CHECK(same_bits(out, values_in(weight, range)));
      }
    }
  }
}

TEST_CASE("checkpoint: column blocks, each cut into flat shards, load as row blocks") {
  const TemporaryFolder folder;
  const Tensor weight = numbered({6, 8}, 1);
  std::vector<std::vector<TensorShard>> ranks;
  for (int64_t column : {0, 3})
    for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, 5}, {5, -1}}) {
      const Shape extent{6, column == 0 ? 3 : 5};
      ranks.push_back({shard_of("w", weight, {{0, column}, extent, begin, end < 0 ? extent.numel() : end})});
    }
  const CheckpointReader reader(publish(folder.path(), ranks));
  reader.verify();
  for (const TensorRange& range :
       {TensorRange{{2, 0}, {3, 8}, 0, 24}, TensorRange{{1, 2}, {4, 3}, 2, 11}, full_range({6, 8})}) {
    const Tensor out = Tensor::zeros({range.numel()}, f32);
    reader.read({"model", "w"}, range, out);
    CHECK(same_bits(out, values_in(weight, range)));
  }
  const Tensor small = Tensor::zeros({3}, f32);
  CHECK(contains(refused([&] {
                   reader.read({"model", "w"}, full_range({6, 8}), small);
                 }),
                 "expected a contiguous tensor of 48 elements"));
}

TEST_CASE("checkpoint: overlapping, incomplete and contradicting chunks are not published") {
  const TemporaryFolder folder;
  const Tensor weight = numbered({4, 4}, 1), other = numbered({2, 8}, 1);
  auto refusal = [&](const TensorRange& first, const TensorRange& second) {
    return refused([&] {
      publish(folder.path(), {{shard_of("w", weight, first)}, {shard_of("w", weight, second)}});
    });
  };
  const Shape shape{4, 4};
  CHECK(contains(
      refusal(flat_range(shape, 0, 9), flat_range(shape, 8, 16)),
      "tensor 'model/w': element 8 of (4, 4) is in both model-0.safetensors and model-1.safetensors"));
  CHECK(contains(refusal(flat_range(shape, 0, 8), flat_range(shape, 9, 16)),
                 "tensor 'model/w': expected all 16 elements of (4, 4), element 8 is in no file"));
  CHECK(contains(refusal(flat_range(shape, 0, 8), flat_range(shape, 8, 15)), "element 15 is in no file"));
  CHECK(contains(refusal({{0, 0}, {4, 2}, 0, 8}, {{0, 1}, {4, 3}, 0, 12}), "element 1 of (4, 4) is in both"));
  CHECK(refusal({{0, 0}, {4, 2}, 0, 8}, {{0, 2}, {4, 2}, 0, 8}) == "");
  CHECK(contains(refused([&] {
                   publish(folder / "b", {{shard_of("w", weight, flat_range(shape, 0, 8))},
                                          {shard_of("w", other, flat_range({2, 8}, 8, 16))}});
                 }),
                 "tensor 'model/w': (4, 4) f32 in one file, (2, 8) f32 in model-1.safetensors"));
  CHECK(list_checkpoints(folder / "b").empty());
  CHECK(contains(refused([&] {
                   publish(folder / "c", {{{"w", shape, flat_range(shape, 0, 16), numbered({3}, 1)}}});
                 }),
                 "expected 16 elements, got (3,) f32 on cpu"));
}
