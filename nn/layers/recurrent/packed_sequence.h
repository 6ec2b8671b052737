#pragma once

#include <span>
#include <utility>
#include <vector>

#include "autograd/variable.h"

/// Sequences of several lengths as one tensor without padding, for recurrent layers; torch.nn.utils.rnn.
/// Legend: B sequences, T steps of the longest one, N the sum of all lengths. A `*` is any number of
/// dimensions.
namespace tessera::nn {

/// The rows of all sequences, step after step: first each sequence's first row, the longest sequence first.
struct PackedSequence {
  Variable data;       ///< (N, *)
  Tensor batch_sizes;  ///< (T,) i64 on the CPU: the rows of each step, never more than before
  Tensor sorted_indices =
      {};  ///< (B,) i64: the sequence that is at each place of a step; undefined: in order
  Tensor unsorted_indices = {};  ///< (B,) i64: the place of each sequence; undefined where the other one is

  /// Calls `visit(data)`: by this, module calls find it in arguments and results (nn/layer.h).
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(data);
  }
};

/// Packs a padded batch: input (T, B, *), or (B, T, *) with `batch_first`; `lengths` (B,) i64 on the CPU.
/// With `enforce_sorted` lengths fall from sequence to sequence; without it sequences are sorted by length,
/// and the indices say how. Differentiable. Throws ValueError for a length below 1 or above T, for lengths
/// that rise where they may not, and for no sequences; ShapeError for another number of lengths than B.
PackedSequence pack_padded_sequence(const Variable& input, const Tensor& lengths, bool batch_first = false,
                                    bool enforce_sorted = true);

/// The padded batch (T, B, *), or (B, T, *), and the lengths (B,), in the order before packing. Rows past a
/// sequence's end are `padding_value`; T is `total_length`, or the longest sequence's. Differentiable. Throws
/// ValueError for a `total_length` below that.
std::pair<Variable, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first = false,
                                                double padding_value = 0.0, int64_t total_length = 0);

/// Packs sequences (L, *) of several lengths L, as `pack_padded_sequence` does.
PackedSequence pack_sequence(std::span<const Variable> sequences, bool enforce_sorted = true);

/// Sequences (L, *) as one tensor (T, B, *), or (B, T, *); rows past the end are `padding_value`. Throws
/// ValueError for no sequences, ShapeError where they differ in more than L.
Variable pad_sequence(std::span<const Variable> sequences, bool batch_first = false,
                      double padding_value = 0.0);

/// The sequences (L, *) of a padded batch. Throws as `pack_padded_sequence`.
std::vector<Variable> unpad_sequence(const Variable& padded, const Tensor& lengths, bool batch_first = false);

/// The sequences (L, *) of a packed batch, in the order before packing.
std::vector<Variable> unpack_sequence(const PackedSequence& sequence);

}  // namespace tessera::nn
