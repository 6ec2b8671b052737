#include "nn/layers/recurrent/packed_sequence.h"

#include <algorithm>
#include <numeric>

#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/views/sample_layout.h"
#include "tensor/ops/creation/creation.h"

namespace tessera::nn {
namespace {

std::vector<int64_t> integers_of(const char* where, const Tensor& x) {
  require<ShapeError>(x.ndim() == 1, where, ": expected one dimension, got ", describe(x));
  require<DTypeError>(x.dtype() == i64, where, ": expected i64, got ", describe(x));
  require<DeviceError>(x.device().is_cpu(), where, ": expected values on the CPU, got ", describe(x));
  const Tensor values = x.contiguous();
  return {values.data<int64_t>(), values.data<int64_t>() + values.numel()};
}

std::vector<int64_t> checked_lengths(const char* where, const Tensor& lengths, int64_t batch, int64_t time) {
  const std::vector<int64_t> list = integers_of(where, lengths);
  require<ShapeError>(static_cast<int64_t>(list.size()) == batch, where, ": expected a length for each of ",
                      batch, " sequences, got ", list.size());
  require<ValueError>(batch > 0, where, ": expected at least one sequence, got none");
  for (size_t b = 0; b < list.size(); ++b)
    require<ValueError>(list[b] >= 1 && list[b] <= time, where, ": length ", list[b], " of sequence ", b,
                        " is outside [1, ", time, "], the steps of the input");
  return list;
}

/// The rows of each step, for lengths that do not rise.
std::vector<int64_t> batch_sizes_of(const std::vector<int64_t>& sorted) {
  std::vector<int64_t> sizes(sorted.front());
  for (const int64_t length : sorted)
    for (int64_t t = 0; t < length; ++t) ++sizes[t];
  return sizes;
}

/// The length of the sequence at each place, from the rows of each step.
std::vector<int64_t> lengths_of(const std::vector<int64_t>& batch_sizes) {
  std::vector<int64_t> lengths(batch_sizes.front());
  for (const int64_t size : batch_sizes)
    for (int64_t i = 0; i < size; ++i) ++lengths[i];
  return lengths;
}

std::vector<int64_t> in_order(int64_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return inverse;
}

/// (T, B, *) as rows (T B, *).
Variable rows_of(const Variable& x) {
  Shape shape{x.size(0) * x.size(1)};
  for (int i = 2; i < x.ndim(); ++i) shape.push_back(x.shape()[i]);
  return reshape(x, shape);
}

std::vector<int64_t> order_of(const PackedSequence& sequence, int64_t batch) {
  return sequence.sorted_indices.defined() ? integers_of("pad_packed_sequence", sequence.sorted_indices)
                                           : in_order(batch);
}

Tensor list_of_lengths(std::span<const Variable> sequences) {
  std::vector<int64_t> lengths;
  for (const Variable& x : sequences) lengths.push_back(x.size(0));
  return Tensor::from(lengths);
}

}  // namespace

PackedSequence pack_padded_sequence(const Variable& input, const Tensor& lengths, bool batch_first,
                                    bool enforce_sorted) {
  const char* where = "pack_padded_sequence";
  require<ShapeError>(input.ndim() >= 2, where, ": expected an input (T, B, *), got ", input);
  const Variable x = batch_first ? transpose(input, 0, 1) : input;
  const int64_t time = x.size(0), batch = x.size(1);
  const std::vector<int64_t> list = checked_lengths(where, lengths, batch, time);
  std::vector<int64_t> order = in_order(batch);
  for (int64_t b = 1; enforce_sorted && b < batch; ++b)
    require<ValueError>(list[b] <= list[b - 1], where, ": length ", list[b], " of sequence ", b,
                        " is larger than ", list[b - 1],
                        " of the one before; pass enforce_sorted = false to have them sorted");
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return list[a] > list[b]; });
  std::vector<int64_t> sorted;
  for (const int64_t b : order) sorted.push_back(list[b]);
  const std::vector<int64_t> sizes = batch_sizes_of(sorted);
  std::vector<int64_t> rows;
  for (size_t t = 0; t < sizes.size(); ++t)
    for (int64_t i = 0; i < sizes[t]; ++i) rows.push_back(static_cast<int64_t>(t) * batch + order[i]);
  PackedSequence packed{index_select(rows_of(x), 0, Tensor::from(rows).to(x.device())), Tensor::from(sizes)};
  if (!enforce_sorted) {
    packed.sorted_indices = Tensor::from(order);
    packed.unsorted_indices = Tensor::from(inverse_of(order));
  }
  return packed;
}

std::pair<Variable, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                                double padding_value, int64_t total_length) {
  const char* where = "pad_packed_sequence";
  const std::vector<int64_t> sizes = integers_of(where, sequence.batch_sizes);
  require<ValueError>(!sizes.empty(), where, ": expected at least one step, got none");
  const int64_t steps = static_cast<int64_t>(sizes.size()), batch = sizes.front();
  require<ValueError>(total_length == 0 || total_length >= steps, where, ": total_length ", total_length,
                      " is below ", steps, ", the steps of the longest sequence");
  const int64_t time = std::max(total_length, steps), N = sequence.data.size(0);
  const std::vector<int64_t> order = order_of(sequence, batch), places = lengths_of(sizes);
  // Each position reads a row of the data, or the row of padding after them.
  std::vector<int64_t> rows(time * batch, N), lengths(batch);
  int64_t row = 0;
  for (int64_t t = 0; t < steps; ++t)
    for (int64_t i = 0; i < sizes[t]; ++i) rows[t * batch + order[i]] = row++;
  for (int64_t i = 0; i < batch; ++i) lengths[order[i]] = places[i];
  Shape one = sequence.data.shape();
  one[0] = 1;
  const Variable padding = ops::full(one, padding_value, sequence.data.dtype(), sequence.data.device());
  const Variable all =
      index_select(cat({sequence.data, padding}, 0), 0, Tensor::from(rows).to(sequence.data.device()));
  Shape shape{time, batch};
  for (int i = 1; i < one.ndim(); ++i) shape.push_back(one[i]);
  const Variable padded = reshape(all, shape);
  set_sample_layout(padded, samples_along(1));
  return {batch_first ? transpose(padded, 0, 1) : padded, Tensor::from(lengths)};
}

Variable pad_sequence(std::span<const Variable> sequences, bool batch_first, double padding_value) {
  require<ValueError>(!sequences.empty(), "pad_sequence: expected at least one sequence, got none");
  int64_t time = 0;
  for (const Variable& x : sequences) {
    require<ShapeError>(x.ndim() >= 1, "pad_sequence: expected sequences (L, *), got ", x);
    time = std::max(time, x.size(0));
  }
  std::vector<Variable> padded;
  for (const Variable& x : sequences) {
    Shape before = Shape::filled(x.ndim(), 0), after = before;
    after[0] = time - x.size(0);
    padded.push_back(after[0] == 0 ? x : pad(x, before, after, padding_value));
  }
  return stack(padded, batch_first ? 0 : 1);
}

PackedSequence pack_sequence(std::span<const Variable> sequences, bool enforce_sorted) {
  const Variable padded = pad_sequence(sequences);
  return pack_padded_sequence(padded, list_of_lengths(sequences), false, enforce_sorted);
}

std::vector<Variable> unpad_sequence(const Variable& padded, const Tensor& lengths, bool batch_first) {
  require<ShapeError>(padded.ndim() >= 2, "unpad_sequence: expected an input (T, B, *), got ", padded);
  const Variable x = batch_first ? padded : transpose(padded, 0, 1);
  const std::vector<int64_t> list = checked_lengths("unpad_sequence", lengths, x.size(0), x.size(1));
  std::vector<Variable> sequences;
  for (size_t b = 0; b < list.size(); ++b)
    sequences.push_back(narrow(select(x, 0, static_cast<int64_t>(b)), 0, 0, list[b]));
  return sequences;
}

std::vector<Variable> unpack_sequence(const PackedSequence& sequence) {
  const auto [padded, lengths] = pad_packed_sequence(sequence, true);
  return unpad_sequence(padded, lengths, true);
}

}  // namespace tessera::nn
