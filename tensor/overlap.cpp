#include "tensor/overlap.h"

#include <algorithm>
#include <array>

namespace tessera {
namespace {

/// One dimension's term of the distance between two elements: a difference of indices from `low` to `high`,
/// times `stride` elements.
struct Term {
  int64_t stride, low, high;
};

/// Finds whether differences of indices add up to a given distance. Terms are tried from the longest stride
/// down; in layouts of views of contiguous tensors, the rest of the distance leaves one or two choices.
class DifferenceSearch {
 public:
  void add(Term term) {
    if (term.low == 0 && term.high == 0) return;
    terms_[static_cast<size_t>(count_++)] = term;
  }

  /// Whether there are such differences; with `nonzero`, some that are not all 0. True also where the search
  /// would take too long.
  bool reaches(int64_t distance, bool nonzero) {
    std::sort(terms_.begin(), terms_.begin() + count_,
              [](const Term& a, const Term& b) { return a.stride > b.stride; });
    return search(0, distance, !nonzero);
  }

 private:
  static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

  bool search(int k, int64_t distance, bool found_nonzero) {
    if (++steps_ > max_steps) return true;
    if (k == count_) return distance == 0 && found_nonzero;
    const Term& term = terms_[static_cast<size_t>(k)];
    if (term.stride == 0) return distance == 0;  // so are those that follow: any difference fits
    int64_t rest_low = 0, rest_high = 0;
    for (int i = k + 1; i < count_; ++i) {
      rest_low += terms_[static_cast<size_t>(i)].low * terms_[static_cast<size_t>(i)].stride;
      rest_high += terms_[static_cast<size_t>(i)].high * terms_[static_cast<size_t>(i)].stride;
    }
    const int64_t first = std::max(term.low, -floor_divide(rest_high - distance, term.stride)),
                  last = std::min(term.high, floor_divide(distance - rest_low, term.stride));
    for (int64_t d = first; d <= last; ++d)
      if (search(k + 1, distance - d * term.stride, found_nonzero || d != 0)) return true;
    return false;
  }

  static constexpr int max_steps = 1 << 16;
  std::array<Term, Shape::max_ndim> terms_{};
  int count_ = 0, steps_ = 0;
};

/// The address of the first element; on a batched device that of the first sample.
const char* begin_of(const Tensor& x) {
  return static_cast<const char*>(x.storage()->data()) + x.offset() * size_of(x.dtype());
}

/// Bytes from the first element's start to the last one's end; strides are never negative.
int64_t bytes_spanned(const Tensor& x) {
  int64_t last = 0;
  for (int i = 0; i < x.ndim(); ++i) last += (x.shape()[i] - 1) * x.strides()[i];
  return (last + 1) * size_of(x.dtype());
}

bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || size_of(a.dtype()) != size_of(b.dtype())) return false;
  for (int i = 0; i < a.ndim(); ++i)
    if (a.shape()[i] != 1 && a.strides()[i] != b.strides()[i]) return false;
  return true;
}

/// Whether tensors with overlapping ranges may have an element in common. Exact for equal strides, else true.
bool may_share_element(const Tensor& a, const Tensor& b) {
  const int64_t width = size_of(a.dtype()), bytes = begin_of(b) - begin_of(a);
  if (size_of(b.dtype()) != width || a.ndim() != b.ndim() || bytes % width != 0) return true;
  DifferenceSearch search;
  for (int i = 0; i < a.ndim(); ++i) {
    const int64_t m = a.shape()[i], n = b.shape()[i];
    if (m != 1 && n != 1 && a.strides()[i] != b.strides()[i]) return true;
    search.add({m != 1 ? a.strides()[i] : b.strides()[i], 1 - n, m - 1});
  }
  return search.reaches(bytes / width, false);
}

}  // namespace

Overlap overlap_of(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || a.is_meta() || b.is_meta()) return Overlap::none;
  const Storage &of_a = *a.storage(), &of_b = *b.storage();
  const char *data_a = static_cast<const char*>(of_a.data()), *data_b = static_cast<const char*>(of_b.data());
  if (data_a + of_a.nbytes() <= data_b || data_b + of_b.nbytes() <= data_a) return Overlap::none;
  const char *first_a = begin_of(a), *first_b = begin_of(b);
  if (first_a + bytes_spanned(a) <= first_b || first_b + bytes_spanned(b) <= first_a) return Overlap::none;
  if (first_a == first_b && same_layout(a, b)) return Overlap::same;
  return may_share_element(a, b) ? Overlap::partial : Overlap::none;
}

bool overlaps_itself(const Tensor& x) {
  if (x.is_contiguous() || x.numel() <= 1) return false;
  DifferenceSearch search;
  for (int i = 0; i < x.ndim(); ++i) {
    if (x.shape()[i] == 1) continue;
    if (x.strides()[i] == 0) return true;
    search.add({x.strides()[i], 1 - x.shape()[i], x.shape()[i] - 1});
  }
  return search.reaches(0, true);
}

void require_distinct_elements(const char* where, const Tensor& out) {
  require<ValueError>(
      !overlaps_itself(out), where,
      ": elements of the output overlap each other in memory, as in an expanded tensor; write "
      "into a clone. Got ",
      describe(out), " with strides ", out.strides());
}

Tensor copy_if_overlapping(const Tensor& out, const Tensor& operand) {
  return overlap_of(out, operand) == Overlap::none ? operand : operand.clone();
}

void require_no_overlap(const char* where, const Tensor& out, std::initializer_list<const Tensor*> others) {
  if (!out.defined()) return;
  for (const Tensor* other : others)
    require<ValueError>(!other->defined() || overlap_of(out, *other) == Overlap::none, where, ": the output ",
                        describe(out), " overlaps ", describe(*other), ", which is read or written too");
}

}  // namespace tessera
