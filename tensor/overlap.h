#pragma once

#include <initializer_list>

#include "tensor/tensor.h"

/// What operations that write into a tensor of the caller's ask about memory. One rule for all: elements of
/// the target may not lie on each other (ValueError); an operand that is the target itself, element on
/// element, is fine where elements are computed one by one; any other overlap is read from a copy, or refused
/// where several targets are written at once.
namespace tessera {

/// How the memory of two tensors meets.
enum class Overlap : uint8_t {
  none,
  same,     ///< each element lies on the one of the same index
  partial,  ///< in another way. Distinguished from `none` exactly for tensors of equal strides, else by the
            ///< range of memory that each spans
};

/// Compares addresses: two storages over one memory are seen too. None on meta, and where there is no
/// element.
Overlap overlap_of(const Tensor& a, const Tensor& b);

/// Whether two indices of `x` name one element, as those of an expanded tensor do.
bool overlaps_itself(const Tensor& x);

/// Throws ValueError naming `where` when elements of `out`, which is about to be written, lie on each other.
void require_distinct_elements(const char* where, const Tensor& out);

/// `operand`, or a copy of it where it meets `out` at all: for operations that read an element after others
/// were written.
Tensor apart_from(const Tensor& out, const Tensor& operand);

/// Throws ValueError naming `where` and both when `out` meets one of `others`. Undefined tensors meet none.
void require_apart(const char* where, const Tensor& out, std::initializer_list<const Tensor*> others);

}  // namespace tessera
