#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/dist/checkpoint/checkpoint_fixture.h"

using namespace tessera;
using namespace tessera::dist;

namespace {

/// The elements of a piece by the definition: the box's row-major order, cut to the range.
std::vector<int64_t> positions_by_definition(const Piece& piece, const Shape& shape) {
  const Strides box = contiguous_strides(piece.extent), full = contiguous_strides(shape);
  std::vector<int64_t> positions;
  for (int64_t i = piece.begin; i < piece.end; ++i) {
    int64_t rest = i, position = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      position += (piece.start[d] + rest / box[d]) * full[d];
      rest %= box[d];
    }
    positions.push_back(position);
  }
  return positions;
}

/// The elements of `whole_tensor` that a piece names, as a tensor of its own.
Tensor cut(const Tensor& whole_tensor, const Piece& piece) {
  Tensor part = Tensor::empty({piece.numel()}, f32);
  const std::vector<int64_t> positions = positions_by_definition(piece, whole_tensor.shape());
  for (size_t i = 0; i < positions.size(); ++i)
    part.data<float>()[i] = whole_tensor.data<float>()[positions[i]];
  return part;
}

TensorPiece piece_of(const std::string& name, const Tensor& tensor, const Piece& piece) {
  return {name, tensor.shape(), piece, cut(tensor, piece)};
}

/// Cuts [0, n) into `parts` ranges of uneven length, empty ones among them.
std::vector<int64_t> uneven_bounds(int64_t n, int parts, std::mt19937& random) {
  std::vector<int64_t> bounds{0, n};
  for (int i = 1; i < parts; ++i)
    bounds.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1)));
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

/// Publishes what each rank wrote; the records travel as text, as between processes.
std::string publish(const std::string& root, const std::vector<std::vector<TensorPiece>>& ranks) {
  CheckpointWriter writer(root, 1);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const FileRecord record =
        write_pieces(writer.folder(), "model-" + std::to_string(rank) + ".safetensors", "model", ranks[rank]);
    writer.add(parse_file_record(to_json(record), "rank"));
  }
  return writer.publish(state_at(1));
}

std::vector<Run> runs_of(const Piece& piece, const Shape& shape) {
  std::vector<Run> runs;
  for (RunCursor cursor(piece, shape); !cursor.is_done(); cursor.next()) runs.push_back(cursor.run());
  return runs;
}

}  // namespace

TEST_CASE("piece: runs are the definition's elements, in order") {
  const Shape shape{3, 4, 5};
  const Piece pieces[] = {whole(shape),
                          flat_range(shape, 7, 31),
                          {{0, 1, 0}, {3, 2, 5}, 0, 30},
                          {{1, 0, 2}, {2, 4, 3}, 5, 23},
                          {{2, 3, 4}, {1, 1, 1}, 0, 1},
                          {{0, 0, 1}, {3, 4, 2}, 3, 3}};
  for (const Piece& piece : pieces) {
    REQUIRE(problem_of(piece, shape) == "");
    std::vector<int64_t> positions;
    for (const Run& run : runs_of(piece, shape)) {
      CHECK(run.offset == static_cast<int64_t>(positions.size()));
      for (int64_t i = 0; i < run.length; ++i) positions.push_back(run.position + i);
    }
    CHECK(positions == positions_by_definition(piece, shape));
    for (int64_t position = 0; position <= shape.numel(); ++position) {
      RunCursor cursor(piece, shape);
      cursor.skip_to(position);
      const auto expected = std::upper_bound(positions.begin(), positions.end(), position - 1);
      REQUIRE(cursor.is_done() == (expected == positions.end()));
      if (cursor.is_done()) continue;
      CHECK(cursor.run().position <= *expected);
      CHECK(cursor.run().position + cursor.run().length > *expected);
    }
  }
  CHECK(runs_of(whole(shape), shape).size() == 1);
  CHECK(runs_of(whole({}), {}).size() == 1);
  CHECK(runs_of({{0, 1, 0}, {3, 2, 5}, 0, 30}, shape).size() == 3);
}

TEST_CASE("piece: boxes and ranges outside the tensor are none of it") {
  CHECK(problem_of({{0}, {4}, 0, 4}, {4}) == "");
  CHECK(problem_of({{1}, {4}, 0, 4}, {4}) != "");
  CHECK(problem_of({{-1}, {2}, 0, 2}, {4}) != "");
  CHECK(problem_of({{0}, {4}, 0, 5}, {4}) != "");
  CHECK(problem_of({{0}, {4}, 3, 2}, {4}) != "");
  CHECK(problem_of({{0, 0}, {4, 1}, 0, 4}, {4}) != "");
  CHECK(problem_of({{INT64_MAX}, {1}, 0, 1}, {4}) != "");
}

TEST_CASE("checkpoint: any number of writers with uneven flat shards, any pieces read") {
  std::mt19937 random(1);
  const Tensor weight = numbered({7, 5}, 1), bias = numbered({11}, 2), scalar = numbered({}, 3);
  for (int writers : {1, 2, 3, 5}) {
    const TemporaryFolder folder;
    std::vector<std::vector<TensorPiece>> ranks(static_cast<size_t>(writers));
    for (const auto& [name, tensor] :
         {std::pair<std::string, Tensor>{"w", weight}, {"b", bias}, {"s", scalar}}) {
      const std::vector<int64_t> bounds = uneven_bounds(tensor.numel(), writers, random);
      for (size_t rank = 0; rank < ranks.size(); ++rank)
        ranks[rank].push_back(
            piece_of(name, tensor, flat_range(tensor.shape(), bounds[rank], bounds[rank + 1])));
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
        const Piece piece = flat_range({7, 5}, bounds[r], bounds[r + 1]);
        const Tensor out = Tensor::zeros({piece.numel()}, f32);
        reader.read({"model", "w"}, piece, out);
        CHECK(same_bits(out, cut(weight, piece)));
      }
    }
  }
}

TEST_CASE("checkpoint: column blocks, each cut into flat shards, load as row blocks") {
  const TemporaryFolder folder;
  const Tensor weight = numbered({6, 8}, 1);
  std::vector<std::vector<TensorPiece>> ranks;
  for (int64_t column : {0, 3})
    for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, 5}, {5, -1}}) {
      const Shape extent{6, column == 0 ? 3 : 5};
      ranks.push_back({piece_of("w", weight, {{0, column}, extent, begin, end < 0 ? extent.numel() : end})});
    }
  const CheckpointReader reader(publish(folder.path(), ranks));
  reader.verify();
  for (const Piece& piece : {Piece{{2, 0}, {3, 8}, 0, 24}, Piece{{1, 2}, {4, 3}, 2, 11}, whole({6, 8})}) {
    const Tensor out = Tensor::zeros({piece.numel()}, f32);
    reader.read({"model", "w"}, piece, out);
    CHECK(same_bits(out, cut(weight, piece)));
  }
  const Tensor small = Tensor::zeros({3}, f32);
  CHECK(contains(refused([&] {
                   reader.read({"model", "w"}, whole({6, 8}), small);
                 }),
                 "expected room for 48 elements"));
}

TEST_CASE("checkpoint: overlapping, incomplete and contradicting pieces are not published") {
  const TemporaryFolder folder;
  const Tensor weight = numbered({4, 4}, 1), other = numbered({2, 8}, 1);
  auto refusal = [&](const Piece& first, const Piece& second) {
    return refused([&] {
      publish(folder.path(), {{piece_of("w", weight, first)}, {piece_of("w", weight, second)}});
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
                   publish(folder / "b", {{piece_of("w", weight, flat_range(shape, 0, 8))},
                                          {piece_of("w", other, flat_range({2, 8}, 8, 16))}});
                 }),
                 "tensor 'model/w': (4, 4) f32 in one file, (2, 8) f32 in model-1.safetensors"));
  CHECK(list_checkpoints(folder / "b").empty());
  CHECK(contains(refused([&] {
                   publish(folder / "c", {{{"w", shape, flat_range(shape, 0, 16), numbered({3}, 1)}}});
                 }),
                 "expected 16 elements, got (3,) f32 on cpu"));
}
