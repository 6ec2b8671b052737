#pragma once

#include "autograd/variable.h"

namespace tessera {

/// Where the elements of a view lie among those of its base. The functions are linear, differentiable, and
/// need no storage of the base: what they take and return has its shape, and memory of its own.
struct ViewWindow {
  Shape base_shape, base_strides;
  Shape shape, strides;
  int64_t offset = 0;  ///< of the view's first element, from the base's

  /// Both share one storage.
  ViewWindow(const Tensor& base, const Tensor& view);
};

/// The elements of `x` (of the base's shape) that the view shows.
Variable take_window(const Variable& x, const ViewWindow& window);
/// Zeros of the base's shape with `x` (of the view's shape) where the view lies; elements that it shows more
/// than once (`expand`) are summed.
Variable place_window(const Variable& x, const ViewWindow& window);
/// `x` (of the base's shape) with zeros where the view lies.
Variable clear_window(const Variable& x, const ViewWindow& window);
/// The same, written into `x`, of which there is no other handle and no graph.
void clear_window_in_place(const Variable& x, const ViewWindow& window);

}  // namespace tessera
