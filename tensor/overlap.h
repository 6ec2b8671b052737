#pragma once  // internal

#include <initializer_list>

#include "tensor/tensor.h"

/// Overlap in memory, for operations that write into a tensor of the caller's. One rule for all: elements of
/// the target must not overlap each other (ValueError); an operand that is the target itself, element on
/// element, is allowed where elements are computed one by one; any other overlapping operand is read from a
/// copy, or an error (ValueError) where several targets are written at once.
namespace tessera {

/// How the memory of two tensors overlaps.
enum class Overlap : uint8_t {
  none,
  same,     ///< elements of the same index share their memory
  partial,  ///< any other overlap. Distinguished from `none` exactly for tensors of equal strides, else by
            ///< the range of memory that each spans
};

/// Compares addresses, so that two storages over the same memory are found too. `none` on meta, and for a
/// tensor without elements.
Overlap overlap_of(const Tensor& a, const Tensor& b);

/// Whether two indices of `x` refer to one element in memory, as in an expanded tensor.
bool overlaps_itself(const Tensor& x);

/// Throws ValueError naming `where` when elements of `out`, which is about to be written, overlap each other.
void require_distinct_elements(const char* where, const Tensor& out);

/// `operand`, or a copy where it overlaps `out`: for operations that read an element after writing others.
Tensor copy_if_overlapping(const Tensor& out, const Tensor& operand);

/// Throws ValueError naming `where` and both tensors when `out` overlaps one of `others`. Undefined tensors
/// overlap none.
void require_no_overlap(const char* where, const Tensor& out, std::initializer_list<const Tensor*> others);

}  // namespace tessera
