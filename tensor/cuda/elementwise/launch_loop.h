#pragma once  // internal

#include <cstdint>
#include <initializer_list>

namespace tessera {
class Tensor;
class Shape;
struct Device;
}  // namespace tessera

/// How the host launches the kernels of loop.cuh. What does not depend on a kernel's types is compiled once,
/// by the host's compiler: a source with kernels holds nothing of it.
namespace tessera::kernels::cuda {

/// The most dimensions of a loop: those of a Shape.
inline constexpr int max_loop_dims = 8;
/// The most operands of a loop, its results included.
inline constexpr int max_loop_operands = 5;

/// A kernel's operand: its first element, and the bytes from one element to the next in each dimension.
struct LoopOperand {
  char* data;
  int64_t strides[max_loop_dims];
};

/// The argument of a kernel with N operands, results first; arguments of fewer operands are a beginning of
/// those of more. Extents have 32 bits: divisions of 64 bits take four times as long.
template <int N>
struct LoopArguments {
  uint32_t count;  ///< elements
  int32_t ndim;
  uint32_t extents[max_loop_dims];
  bool packed;  ///< whether a thread computes a pack of elements, or one
  LoopOperand operands[N];
};

/// A kernel of loop.cuh.
struct LoopKernel {
  const void* function = nullptr;  ///< null: there is none
  int pack = 0;                    ///< elements of a pack
  int results = 1;                 ///< the operands that it writes
};

/// Where an operand's elements are, their size, and their strides in elements.
struct LoopView {
  void* data;
  int64_t element_bytes;
  const Shape* strides;
};

/// Launches `kernel` with the functor at `f` over `count` operands of `shape`. Where there are 2^31 elements
/// and more, halves of them.
void launch_loop(const char* name, const LoopKernel& kernel, const void* f, Device device, const Shape& shape,
                 const LoopView* operands, int count);
/// The same for tensors on one device, all of one shape.
void launch_loop(const char* name, const LoopKernel& kernel, const void* f,
                 std::initializer_list<const Tensor*> operands);

}  // namespace tessera::kernels::cuda
