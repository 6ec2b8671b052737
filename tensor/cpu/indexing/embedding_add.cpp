// The sum of a row of the token table and a row of the position table. Backward reads dy once for both
// gradients. Threads share the columns and each adds the rows in order, so that sums do not depend on the
// number of threads.
#include "tensor/cpu/indexing/embedding_add.h"

#include <algorithm>

#include "tensor/cpu/loops/index_values.h"
#include "tensor/cpu/loops/scratch.h"
#include "tensor/cpu/loops/stored_sums.h"
#include "tensor/threads/parallel.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t grain_elements = 8192;
constexpr int64_t block_elements = 2048;
constexpr int64_t column_block = 32;

template <class T>
T* row_of(const Tensor& tensor, int64_t row, int64_t width) {
  return static_cast<T*>(tensor.raw_data()) + row * width;
}

template <class T>
void forward(const Tensor& ids, const Tensor& weight, const Tensor& addend, const ops::DropoutRows* mask,
             const Tensor& y) {
  using A = accumulator_of<T>;
  const IndexValues id(ids);
  const int64_t rows = ids.numel(), width = weight.shape()[1], time = addend.shape()[0];
  const int64_t block = std::max<int64_t>(1, block_elements / width);
  const StoredSums<T>& kernels = stored_sums<T>();
  const auto add = [&](auto kernel, int64_t r, auto* sum) {
    kernel(row_of<T>(weight, id[r], width), row_of<T>(addend, r % time, width), width, sum);
  };
  parallel_for(rows, 1 + grain_elements / width, [&](int64_t begin, int64_t end) {
    if (!mask) {
      for (int64_t r = begin; r < end; ++r) add(kernels.add, r, row_of<T>(y, r, width));
      return;
    }
    const Scratch<A> sums(block * width);
    for (int64_t first = begin; first < end; first += block) {
      const int64_t count = std::min(block, end - first);
      for (int64_t r = 0; r < count; ++r) add(kernels.add_wide, first + r, sums.get() + r * width);
      drop_elements(*mask, sums.get(), first * width, count * width, row_of<T>(y, first, width));
    }
  });
}

template <class T>
void backward(const Tensor& dy, const Tensor& ids, const Tensor& table, const Tensor& addend) {
  using A = accumulator_of<T>;
  const int64_t width = dy.shape().back(), time = dy.shape()[1], rows = dy.numel() / width;
  const IndexValues id(ids);
  const auto add = stored_sums<T>().accumulate;
  const int64_t blocks = (width + column_block - 1) / column_block;
  parallel_for(blocks, 1 + grain_elements / (rows * column_block), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * column_block, count = std::min(end * column_block, width) - first;
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = row_of<T>(dy, r, width) + first;
      if (table.defined()) add(from, count, row_of<A>(table, id[r], width) + first);
      if (addend.defined()) add(from, count, row_of<A>(addend, r % time, width) + first);
    }
  });
}

}  // namespace

void embedding_add(const Tensor& ids, const Tensor& weight, const Tensor& addend,
                   const ops::DropoutRows* mask, const Tensor& y) {
  with_floating(weight.dtype(), [&]<class T>(TypeTag<T>) { forward<T>(ids, weight, addend, mask, y); });
}

void embedding_add_backward(const Tensor& dy, const Tensor& ids, const Tensor& table, const Tensor& addend) {
  with_floating(dy.dtype(), [&]<class T>(TypeTag<T>) { backward<T>(dy, ids, table, addend); });
}

}  // namespace tessera::kernels::cpu
