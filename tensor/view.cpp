#include <algorithm>

#include "tensor/tensor.h"

namespace tessera {
namespace {

/// `shape` with one -1 replaced by the extent that fits the number of elements.
Shape resolve_extents(const Shape& shape, const Tensor& tensor, const char* where) {
  Shape resolved = shape;
  int64_t known = 1, unknown = -1;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[i] == -1) {
      require<ShapeError>(unknown < 0, where, ": at most one extent may be -1, got ", shape);
      unknown = i;
    } else {
      require<ShapeError>(shape[i] >= 0, where, ": extents are -1 or at least 0, got ", shape);
      known = multiply_sizes(known, shape[i], where);
    }
  }
  if (unknown >= 0) {
    require<ShapeError>(known > 0 && tensor.numel() % known == 0, where, ": ", tensor.shape(), " of ",
                        tensor.numel(), " elements does not divide into ", shape);
    resolved[unknown] = tensor.numel() / known;
  }
  require<ShapeError>(resolved.numel() == tensor.numel(), where, ": ", tensor.shape(), " has ",
                      tensor.numel(), " elements, ", shape, " takes ", resolved.numel());
  return resolved;
}

/// Strides for a view of (from, strides) as `shape` with the elements in the same order; false when there are
/// none.
bool view_strides(const Shape& from, const Strides& strides, const Shape& shape, Strides& out) {
  out = contiguous_strides(shape);
  if (shape.numel() == 0) return true;
  int new_dim = shape.ndim() - 1;
  int64_t group = 1;    // elements of the current group of old dimensions that lie evenly spaced
  int64_t spacing = 1;  // of the elements of the group
  for (int i = from.ndim() - 1; i >= 0; --i) {
    if (group == 1) spacing = strides[i];
    group *= from[i];
    const bool group_ends = i == 0 || (from[i - 1] != 1 && strides[i - 1] != group * spacing);
    if (!group_ends) continue;
    int64_t filled = 1;
    while (new_dim >= 0 && (filled < group || shape[new_dim] == 1)) {
      out[new_dim] = filled * spacing;
      filled *= shape[new_dim--];
    }
    if (filled != group) return false;
    group = 1;
  }
  return true;
}

}  // namespace

Tensor Tensor::with_layout(const Shape& shape, const Strides& strides, int64_t offset) const {
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = strides;
  view.offset_ = offset;
  view.numel_ = shape.numel();
  multiply_sizes(view.numel_, size_of(dtype_), "bytes of a view");  // a check: expanding may exceed 64 bits
  view.contiguous_ = layout_is_contiguous(shape, strides);
  return view;
}

Tensor Tensor::view(const Shape& shape) const {
  require_defined("view");
  const Shape resolved = resolve_extents(shape, *this, "view");
  if (contiguous_) return with_layout(resolved, contiguous_strides(resolved), offset_);
  Strides strides;
  require<ShapeError>(view_strides(shape_, strides_, resolved, strides), "view: ", shape_, " with strides ",
                      strides_, " cannot be viewed as ", resolved, " without a copy; use reshape");
  return with_layout(resolved, strides, offset_);
}

Tensor Tensor::reshape(const Shape& shape) const {
  require_defined("reshape");
  const Shape resolved = resolve_extents(shape, *this, "reshape");
  Strides strides;
  if (contiguous_ || !view_strides(shape_, strides_, resolved, strides)) return contiguous().view(resolved);
  return with_layout(resolved, strides, offset_);
}

Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  require_defined("transpose");
  dim0 = normalize_dim(dim0, ndim(), "transpose");
  dim1 = normalize_dim(dim1, ndim(), "transpose");
  Shape shape = shape_;
  Strides strides = strides_;
  std::swap(shape[dim0], shape[dim1]);
  std::swap(strides[dim0], strides[dim1]);
  return with_layout(shape, strides, offset_);
}

Tensor Tensor::permute(const Shape& order) const {
  require_defined("permute");
  require<ShapeError>(order.ndim() == ndim(), "permute: ", shape_, " has ", ndim(),
                      " dimensions, got the order ", order);
  Shape shape = shape_;
  Strides strides = strides_;
  unsigned seen = 0;
  for (int i = 0; i < ndim(); ++i) {
    const int64_t from = normalize_dim(order[i], ndim(), "permute");
    require<ValueError>(!(seen >> from & 1u), "permute: dimension ", from, " appears twice in ", order);
    seen |= 1u << from;
    shape[i] = shape_[from];
    strides[i] = strides_[from];
  }
  return with_layout(shape, strides, offset_);
}

Tensor Tensor::expand(const Shape& shape) const {
  require_defined("expand");
  require<ShapeError>(shape.ndim() >= ndim(), "expand: ", shape_, " does not expand to ", shape);
  Shape extents = shape;
  Strides strides = Shape::filled(shape.ndim(), 0);
  const int added = shape.ndim() - ndim();
  for (int i = 0; i < shape.ndim(); ++i) {
    if (i < added) {
      require<ShapeError>(shape[i] >= 0, "expand: a new leading dimension needs an extent, got ", shape);
      continue;
    }
    const int64_t have = shape_[i - added];
    if (extents[i] == -1) extents[i] = have;
    require<ShapeError>(have == extents[i] || have == 1, "expand: ", shape_, " does not expand to ", shape,
                        ": dimension ", i, " is ", have, ", not 1");
    strides[i] = have == extents[i] ? strides_[i - added] : 0;
  }
  return with_layout(extents, strides, offset_);
}

Tensor Tensor::slice(int64_t dim, int64_t start, int64_t end, int64_t step) const {
  require_defined("slice");
  require<ShapeError>(ndim() > 0, "slice: a 0-dim tensor has no dimension to slice");
  dim = normalize_dim(dim, ndim(), "slice");
  require<ValueError>(step >= 1, "slice: expected a step of at least 1, got ", step);
  const int64_t n = shape_[dim];
  if (start < 0) start += n;
  if (end < 0) end += n;
  start = std::clamp<int64_t>(start, 0, n);
  end = std::clamp<int64_t>(end, start, n);
  Shape shape = shape_;
  Strides strides = strides_;
  shape[dim] = end == start ? 0 : (end - start - 1) / step + 1;
  if (shape[dim] > 1) strides[dim] *= step;  // a step beyond the end selects one element
  return with_layout(shape, strides, offset_ + start * strides_[dim]);
}

Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
  require_defined("narrow");
  require<ShapeError>(ndim() > 0, "narrow: a 0-dim tensor has no dimension to narrow");
  dim = normalize_dim(dim, ndim(), "narrow");
  require<IndexError>(start >= 0 && length >= 0 && start <= shape_[dim] && length <= shape_[dim] - start,
                      "narrow: ", length, " elements from ", start, " on of dimension ", dim,
                      " are not inside ", shape_);
  return slice(dim, start, start + length);
}

Tensor Tensor::select(int64_t dim, int64_t i) const {
  require_defined("select");
  require<ShapeError>(ndim() > 0, "select: a 0-dim tensor has no dimension to select from");
  dim = normalize_dim(dim, ndim(), "select");
  const int64_t n = shape_[dim];
  require<IndexError>(i >= -n && i < n, "select: index ", i, " is outside dimension ", dim, " of ", shape_);
  if (i < 0) i += n;
  Shape shape = shape_;
  Strides strides = strides_;
  shape.erase(dim);
  strides.erase(dim);
  return with_layout(shape, strides, offset_ + i * strides_[dim]);
}

Tensor Tensor::unsqueeze(int64_t dim) const {
  require_defined("unsqueeze");
  dim = normalize_dim(dim, ndim() + 1, "unsqueeze");
  Shape shape = shape_;
  Strides strides = strides_;
  strides.insert(dim, dim < ndim() ? shape_[dim] * strides_[dim] : 1);
  shape.insert(dim, 1);
  return with_layout(shape, strides, offset_);
}

Tensor Tensor::squeeze(int64_t dim) const {
  require_defined("squeeze");
  dim = normalize_dim(dim, ndim(), "squeeze");
  require<ShapeError>(ndim() > 0 && shape_[dim] == 1, "squeeze: dimension ", dim, " of ", shape_,
                      " is not 1");
  Shape shape = shape_;
  Strides strides = strides_;
  shape.erase(dim);
  strides.erase(dim);
  return with_layout(shape, strides, offset_);
}

Tensor Tensor::squeeze() const {
  require_defined("squeeze");
  Shape shape;
  Strides strides;
  for (int i = 0; i < ndim(); ++i) {
    if (shape_[i] == 1) continue;
    shape.push_back(shape_[i]);
    strides.push_back(strides_[i]);
  }
  return with_layout(shape, strides, offset_);
}

Tensor Tensor::flatten(int64_t start, int64_t end) const {
  require_defined("flatten");
  start = normalize_dim(start, ndim(), "flatten");
  end = normalize_dim(end, ndim(), "flatten");
  require<IndexError>(start <= end, "flatten: dimensions ", start, " to ", end, " of ", shape_,
                      " are out of order");
  if (ndim() == 0) return view({1});
  Shape shape;
  int64_t joined = 1;
  for (int i = 0; i < ndim(); ++i) {
    if (i >= start && i <= end) joined = multiply_sizes(joined, shape_[i], "flatten");
    if (i == end)
      shape.push_back(joined);
    else if (i < start || i > end)
      shape.push_back(shape_[i]);
  }
  return reshape(shape);
}

Tensor Tensor::as_strided(const Shape& shape, const Strides& strides, int64_t offset) const {
  require_defined("as_strided");
  require<ShapeError>(shape.ndim() == strides.ndim(), "as_strided: expected ", shape.ndim(),
                      " strides, one per extent, got ", strides.ndim());
  require<ShapeError>(offset >= 0, "as_strided: expected an offset of at least 0, got ", offset);
  int64_t needed = add_sizes(offset, 1, "as_strided");  // elements up to and including the last
  for (int i = 0; i < shape.ndim(); ++i) {
    require<ShapeError>(shape[i] >= 0 && strides[i] >= 0,
                        "as_strided: expected extents and strides of at least 0, got ", shape, " and ",
                        strides);
    const int64_t span = multiply_sizes(shape[i], strides[i], "as_strided");
    if (shape[i] > 0) needed = add_sizes(needed, span - strides[i], "as_strided");
  }
  require<ShapeError>(
      shape.numel() == 0 || multiply_sizes(needed, size_of(dtype_), "as_strided") <= storage_->nbytes(),
      "as_strided: ", shape, " with strides ", strides, " at offset ", offset, " needs ", needed,
      " elements of ", dtype_, ", the storage has ", storage_->nbytes(), " bytes");
  return with_layout(shape, strides, offset);
}

Tensor Tensor::with_own_version() const {
  require_defined("with_own_version");
  Tensor alias = *this;
  alias.version_ = make_intrusive<VersionCounter>();
  return alias;
}

Tensor Tensor::with_version_of(const Tensor& source) const {
  require_defined("with_version_of");
  source.require_defined("with_version_of");
  Tensor alias = *this;
  alias.version_ = source.version_;
  return alias;
}

}  // namespace tessera
