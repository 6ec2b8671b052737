#include "nn/layers/recurrent/packed_sequence.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/elementwise/binary.h"
#include "tensor/ops/creation/creation.h"

using namespace tessera;

namespace {

std::vector<double> values(const Variable& x) {
  const Tensor t = x.value().to(f64).contiguous();
  return {t.data<double>(), t.data<double>() + t.numel()};
}
std::vector<int64_t> integers(const Tensor& x) {
  return {x.data<int64_t>(), x.data<int64_t>() + x.numel()};
}

/// (T, B): element 10 t + b.
Variable numbered(int64_t time, int64_t batch) {
  const Tensor x = Tensor::empty({time, batch}, f64);
  for (int64_t t = 0; t < time; ++t)
    for (int64_t b = 0; b < batch; ++b) x.data<double>()[t * batch + b] = static_cast<double>(10 * t + b);
  return Variable::leaf(x);
}

}  // namespace

TEST_CASE("packed sequence: rows go step after step, the longest sequence first") {
  const Variable x = numbered(3, 3);
  const nn::PackedSequence packed =
      nn::pack_padded_sequence(x, Tensor::from<int64_t>({2, 3, 1}), false, false);
  CHECK(values(packed.data) == std::vector<double>{1, 0, 2, 11, 10, 21});
  CHECK(integers(packed.batch_sizes) == std::vector<int64_t>{3, 2, 1});
  CHECK(integers(packed.sorted_indices) == std::vector<int64_t>{1, 0, 2});
  CHECK(integers(packed.unsorted_indices) == std::vector<int64_t>{1, 0, 2});
  const auto [padded, lengths] = nn::pad_packed_sequence(packed, true, -1, 4);
  CHECK(padded.shape() == Shape{3, 4});
  CHECK(values(padded) == std::vector<double>{0, 10, -1, -1, 1, 11, 21, -1, 2, -1, -1, -1});
  CHECK(integers(lengths) == std::vector<int64_t>{2, 3, 1});
}

TEST_CASE("packed sequence: sorted lengths keep their order, without indices") {
  const nn::PackedSequence packed = nn::pack_padded_sequence(numbered(3, 2), Tensor::from<int64_t>({3, 3}));
  CHECK(!packed.sorted_indices.defined());
  CHECK(values(packed.data) == std::vector<double>{0, 1, 10, 11, 20, 21});
}

TEST_CASE("packed sequence: packing and padding are inverse, and their gradients too") {
  const auto there_and_back = [](std::span<const Variable> in) -> std::vector<Variable> {
    const auto packed = nn::pack_padded_sequence(in[0], Tensor::from<int64_t>({1, 3}), false, false);
    return {packed.data * packed.data, nn::pad_packed_sequence(packed, false, 2).first};
  };
  const Variable inputs[] = {numbered(3, 2)};
  const GradcheckResult result = gradcheck(there_and_back, inputs);
  CHECK_MESSAGE(result.passed, result.message);
}

TEST_CASE("packed sequence: lists of sequences are padded, packed and taken apart again") {
  const Variable sequences[] = {Tensor::from<double>({1, 2}), Tensor::from<double>({3, 4, 5}),
                                Tensor::from<double>({6})};
  const Variable padded = nn::pad_sequence(sequences, true, -1);
  CHECK(values(padded) == std::vector<double>{1, 2, -1, 3, 4, 5, 6, -1, -1});
  CHECK(nn::pad_sequence(sequences).shape() == Shape{3, 3});
  const nn::PackedSequence packed = nn::pack_sequence(sequences, false);
  CHECK(values(packed.data) == std::vector<double>{3, 1, 6, 4, 2, 5});
  for (const std::vector<Variable>& parts :
       {nn::unpack_sequence(packed), nn::unpad_sequence(padded, Tensor::from<int64_t>({2, 3, 1}), true)}) {
    REQUIRE(parts.size() == 3);
    for (size_t i = 0; i < 3; ++i) CHECK(values(parts[i]) == values(sequences[i]));
  }
}

TEST_CASE("packed sequence: lengths that do not fit are errors") {
  const Variable x = numbered(3, 2);
  const auto pack = [&](std::initializer_list<int64_t> lengths, bool sorted = false) {
    return nn::pack_padded_sequence(x, Tensor::from(lengths), false, sorted);
  };
  CHECK_THROWS_WITH_AS(pack({3, 0}), doctest::Contains("length 0 of sequence 1 is outside [1, 3]"),
                       ValueError);
  CHECK_THROWS_WITH_AS(pack({4, 1}), doctest::Contains("length 4 of sequence 0 is outside [1, 3]"),
                       ValueError);
  CHECK_THROWS_WITH_AS(pack({1, 3}, true), doctest::Contains("pass enforce_sorted = false"), ValueError);
  CHECK_THROWS_AS(pack({1, 2, 3}), ShapeError);
  CHECK_THROWS_AS(nn::pack_padded_sequence(x, Tensor::from<float>({1, 2})), DTypeError);
  CHECK_THROWS_AS(nn::pack_padded_sequence(Variable(Tensor::zeros({3, 0}, f64)), Tensor::zeros({0}, i64)),
                  ValueError);
  CHECK_THROWS_WITH_AS(nn::pad_packed_sequence(pack({3, 1}), false, 0, 2),
                       doctest::Contains("total_length 2"), ValueError);
  CHECK_THROWS_AS(nn::pad_sequence({}), ValueError);
  const Variable empty[] = {Tensor::from<double>({1}), Variable(Tensor::zeros({0}, f64))};
  CHECK_THROWS_AS(nn::pack_sequence(empty, false), ValueError);
}
