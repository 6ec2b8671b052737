// What a list of indices means for a shape: which views, and which index tensors for which of their
// dimensions.

#include <algorithm>

#include "tensor/batched/rules.h"
#include "tensor/cpu/indexing/advanced_indexing.h"
#include "tensor/cuda/indexing/advanced_indexing.h"
#include "tensor/ops/indexing/index_plan.h"
#include "tensor/ops/kernel.h"

namespace tessera {
namespace {

bool is_mask(const Index& index) {
  return index.kind() == Index::Kind::tensor && index.tensor().dtype() == boolean;
}

/// Whether a 0-dim tensor stands for an integer. On meta it has no value.
bool is_integer_tensor(const Index& index) {
  return index.kind() == Index::Kind::tensor && index.tensor().ndim() == 0 && !is_mask(index) &&
         !index.tensor().is_meta();
}

/// The number of a tensor's dimensions that the index takes.
int dims_taken(const Index& index) {
  if (index.kind() == Index::Kind::none || index.kind() == Index::Kind::ellipsis) return 0;
  return is_mask(index) ? index.tensor().ndim() : 1;
}

std::string end_text(const std::optional<int64_t>& end) {
  return end ? std::to_string(*end) : "";
}

}  // namespace

std::string to_string(const Index& index) {
  switch (index.kind()) {
    case Index::Kind::integer:
      return std::to_string(index.integer());
    case Index::Kind::slice: {
      const Slice& s = index.slice();
      return end_text(s.start) + ":" + end_text(s.stop) + (s.step == 1 ? "" : ":" + std::to_string(s.step));
    }
    case Index::Kind::none:
      return "None";
    case Index::Kind::ellipsis:
      return "...";
    default:
      return text("a tensor ", describe(index.tensor()));
  }
}

namespace ops {
namespace {

constexpr Kernel<void(const char* where, int entry, const Tensor& index, int64_t extent, bool replace,
                      const Tensor& positions)>
    coordinate_kernel{"add_coordinate", &kernels::cpu::add_coordinate,
                      TESSERA_CUDA_KERNEL(kernels::cuda::add_coordinate),
                      batched::one_by_one<&kernels::cpu::add_coordinate>};

int64_t product(const Shape& shape, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= shape[i];
  return n;
}

}  // namespace

void IndexPlan::add_step(const char* where, const ViewStep& step) {
  require<ShapeError>(step_count < static_cast<int>(std::size(steps)), where, ": a tensor has at most ",
                      Shape::max_ndim, " dimensions, the indices make more");
  steps[step_count++] = step;
}

void IndexPlan::add_tensor(const char* where, const Shape& shape, int source_dim, int& dim,
                           const Index& index, int entry) {
  const Tensor& tensor = index.tensor();
  require<ShapeError>(tensor_count < static_cast<int>(std::size(tensors)), where, ": more than ",
                      std::size(tensors), " index tensors");
  if (!is_mask(index)) {
    require<DTypeError>(tensor.dtype() == i64 || tensor.dtype() == i32, where,
                        ": the index tensor at position ", entry,
                        " holds positions in i64 or i32, or a mask in bool; got ", describe(tensor));
    tensors[tensor_count++] = {&tensor, dim++, 1, entry};
    return;
  }
  for (int d = 0; d < tensor.ndim(); ++d)
    require<IndexError>(tensor.shape()[d] == shape[source_dim + d], where, ": the mask ", tensor.shape(),
                        " at position ", entry, " has extent ", tensor.shape()[d], " in its dimension ", d,
                        ", dimension ", source_dim + d, " of ", shape, " has ", shape[source_dim + d]);
  if (tensor.ndim() == 0) add_step(where, {Index::Kind::none, dim, 0, 0, 0});
  const int dims = std::max(1, tensor.ndim());
  tensors[tensor_count++] = {&tensor, dim, dims, entry};
  dim += dims;
}

namespace {

/// The dimensions that the indices take, of `shape`'s; the others are those of the ellipsis, or come last.
int count_taken(const char* where, const Shape& shape, std::span<const Index> indices) {
  int taken = 0, ellipsis = -1;
  for (int i = 0; i < std::ssize(indices); ++i) {
    if (indices[i].kind() == Index::Kind::tensor)
      require<ValueError>(indices[i].tensor().defined(), where, ": the index tensor at position ", i,
                          " is undefined");
    taken += dims_taken(indices[i]);
    if (indices[i].kind() != Index::Kind::ellipsis) continue;
    require<IndexError>(ellipsis < 0, where, ": Ellipsis at positions ", ellipsis, " and ", i,
                        "; at most one is possible");
    ellipsis = i;
  }
  require<IndexError>(taken <= shape.ndim(), where, ": the indices take ", taken, " dimensions, ", shape,
                      " has ", shape.ndim());
  return taken;
}

/// The position that entry `i`, an integer or a 0-dim tensor, gives.
int64_t integer_of(const char* where, const Index& index, int i) {
  if (index.kind() != Index::Kind::tensor) return index.integer();
  require<DTypeError>(index.tensor().dtype() == i64 || index.tensor().dtype() == i32, where,
                      ": the index tensor at position ", i,
                      " holds positions in i64 or i32, or a mask in bool; got ", describe(index.tensor()));
  return index.tensor().item_i64();
}

}  // namespace

void IndexPlan::add_slice(const char* where, const Slice& slice, int64_t extent, int dim, int entry) {
  require<ValueError>(slice.step >= 1, where, ": the slice at position ", entry, " has step ", slice.step,
                      ", expected at least 1; for the reverse order use flip");
  const int64_t start = slice.start.value_or(0), stop = slice.stop.value_or(extent);
  const bool is_all = (start == 0 || start <= -extent) && stop >= extent && slice.step == 1;
  if (!is_all) add_step(where, {Index::Kind::slice, dim, start, stop, slice.step});
}

IndexPlan::IndexPlan(const char* where, const Shape& shape, std::span<const Index> indices) {
  const int left_out = shape.ndim() - count_taken(where, shape, indices);
  int dim = 0, source = 0;  // of the view, and of the tensor
  for (int i = 0; i < std::ssize(indices); ++i) {
    const Index& index = indices[i];
    const int64_t extent = source < shape.ndim() ? shape[source] : 0;
    switch (is_integer_tensor(index) ? Index::Kind::integer : index.kind()) {
      case Index::Kind::integer: {
        const int64_t at = integer_of(where, index, i);
        require<IndexError>(at >= -extent && at < extent, where, ": index ", at, " at position ", i,
                            " is outside [", -extent, ", ", extent, "), dimension ", source, " of ", shape);
        add_step(where, {Index::Kind::integer, dim, at, 0, 0});
        break;
      }
      case Index::Kind::slice:
        add_slice(where, index.slice(), extent, dim++, i);
        break;
      case Index::Kind::none:
        add_step(where, {Index::Kind::none, dim++, 0, 0, 0});
        break;
      case Index::Kind::ellipsis:
        dim += left_out;
        source += left_out;
        break;
      default:
        add_tensor(where, shape, source, dim, index, i);
    }
    source += dims_taken(index);
  }
}

Tensor IndexPlan::view(const Tensor& x) const {
  Tensor view = x;
  for (int i = 0; i < step_count; ++i) {
    const ViewStep& s = steps[i];
    if (s.kind == Index::Kind::integer)
      view = view.select(s.dim, s.start);
    else if (s.kind == Index::Kind::slice)
      view = view.slice(s.dim, s.start, s.stop, s.step);
    else
      view = view.unsqueeze(s.dim);
  }
  return view;
}

IndexedElements IndexPlan::elements(const char* where, const Tensor& view) const {
  Tensor indices[2 * Shape::max_ndim];
  IndexedElements result;
  Shape shape;
  bool known = true;
  for (int i = 0; i < tensor_count; ++i) {
    const TensorEntry& t = tensors[i];
    common_device(where, {&view, t.tensor});
    indices[i] = t.tensor->dtype() == boolean ? true_elements(where, *t.tensor) : *t.tensor;
    known = known && !indices[i].is_meta();
    const Shape& own = indices[i].shape();
    while (shape.ndim() < own.ndim()) shape.insert(0, 1);
    for (int d = 1; d <= own.ndim(); ++d) {
      int64_t& extent = shape[shape.ndim() - d];
      require<ShapeError>(own[own.ndim() - d] == extent || own[own.ndim() - d] == 1 || extent == 1, where,
                          ": index tensors that broadcast to ", shape, " before position ", t.entry,
                          " do not broadcast with the one there, ", own,
                          t.tensor->dtype() == boolean ? " (a mask counts as its true elements)" : "");
      if (extent == 1) extent = own[own.ndim() - d];
    }
    for (int d = t.dim; d < t.dim + t.dims; ++d) result.dims |= 1u << d;
  }
  if (tensor_count == 1 && tensors[0].tensor->dtype() == boolean) {
    result.positions = indices[0];
    return result;
  }
  result.positions = Tensor::empty(shape, i64, known ? view.device() : meta());
  if (known && view.is_meta()) result.positions = Tensor::empty(shape, i64);  // only the plan is on meta
  for (int i = 0; known && i < tensor_count; ++i) {
    const TensorEntry& t = tensors[i];
    coordinate_kernel(result.positions.device(), where, t.entry, indices[i].expand(shape).contiguous(),
                      product(view.shape(), t.dim, t.dim + t.dims), i == 0, result.positions);
  }
  return result;
}

Shape assigned_shape(const char* where, const Shape& value, DType value_dtype, const Shape& shape,
                     DType target) {
  require<DTypeError>(
      value_dtype == target || is_floating(target) || (is_integer(target) && !is_floating(value_dtype)),
      where, ": a value of ", value_dtype, " does not go into a tensor of ", target,
      "; convert it, for example with cast");
  Shape kept = value;
  while (kept.ndim() > shape.ndim() && kept[0] == 1) kept.erase(0);
  bool fits = kept.ndim() <= shape.ndim();
  for (int i = 1; fits && i <= kept.ndim(); ++i)
    fits = kept[kept.ndim() - i] == shape[shape.ndim() - i] || kept[kept.ndim() - i] == 1;
  require<ShapeError>(fits, where, ": the value ", value, " does not broadcast to ", shape,
                      ", the shape of the indexed elements");
  return kept;
}

}  // namespace ops
}  // namespace tessera
