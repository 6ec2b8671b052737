#include "tensor/cpu/loops/block_walk.h"

#include <algorithm>
#include <cstring>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/streamed_result.h"
#include "tensor/strided_loop.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int max_operands = 4;            // the output, then up to three inputs
constexpr int64_t buffered_block = 512;    // elements; buffers of a thread: 8 x 4 KiB at most
constexpr int64_t direct_block = 8192;     // elements, where no operand needs a buffer
constexpr int64_t streamed_block = 1024;   // elements, where the result alone needs one
constexpr int64_t grain_elements = 16384;  // below this a second thread costs more than it saves

/// How one operand reaches the inner loop.
struct Access {
  char* data;
  int64_t width;       // bytes of an element
  int64_t stride;      // of the innermost dimension, in elements
  UnaryBlock convert;  // null: the types agree
  bool scalar;
  bool direct;
};

struct alignas(64) Buffer {
  char bytes[buffered_block * 8];
};
struct alignas(64) ResultBuffer {
  char bytes[streamed_block * 8];
};

template <class T>
void gather(const char* from, int64_t stride, int64_t n, char* to) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) target[i] = source[i * stride];
}

template <class T>
void scatter(const char* from, int64_t stride, int64_t n, char* to) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) target[i * stride] = source[i];
}

void gather(int64_t width, const char* from, int64_t stride, int64_t n, char* to) {
  width == 8   ? gather<uint64_t>(from, stride, n, to)
  : width == 4 ? gather<uint32_t>(from, stride, n, to)
  : width == 2 ? gather<uint16_t>(from, stride, n, to)
               : gather<uint8_t>(from, stride, n, to);
}

void scatter(int64_t width, const char* from, int64_t stride, int64_t n, char* to) {
  width == 8   ? scatter<uint64_t>(from, stride, n, to)
  : width == 4 ? scatter<uint32_t>(from, stride, n, to)
  : width == 2 ? scatter<uint16_t>(from, stride, n, to)
               : scatter<uint8_t>(from, stride, n, to);
}

/// n elements at `from`, as the inner loop takes them.
const void* fetch(const Access& access, const char* from, int64_t n, Buffer& gathered, Buffer& converted) {
  if (access.direct) return from;
  if (access.scalar) n = 1;
  const char* block = from;
  if (!access.scalar && access.stride != 1) {
    gather(access.width, from, access.stride, n, gathered.bytes);
    block = gathered.bytes;
  }
  if (!access.convert) return block;
  access.convert(block, converted.bytes, n);
  return converted.bytes;
}

/// Converts and scatters a block that the inner loop wrote.
void store(const Access& access, const char* block, int64_t n, char* to, Buffer& converted) {
  if (access.convert) {
    char* target = access.stride == 1 ? to : converted.bytes;
    access.convert(block, target, n);
    if (access.stride == 1) return;
    block = converted.bytes;
  }
  scatter(access.width, block, access.stride, n, to);
}

/// bool and u8 are the same bytes, except that converting to bool means "is not 0".
bool same_bytes(DType from, DType to) {
  return from == to || (from == boolean && to == u8) || (from == u8 && to == boolean);
}

Access access_of(const Operand& operand, int64_t stride, bool writes) {
  const DType from = writes ? operand.block_type : operand.dtype,
              to = writes ? operand.dtype : operand.block_type;
  const UnaryBlock convert = same_bytes(from, to) ? nullptr : TESSERA_PER_ISA(convert_block)(from, to);
  const bool scalar = !writes && operand.may_be_scalar && stride == 0;
  return {static_cast<char*>(const_cast<void*>(operand.data)),
          size_of(operand.dtype),
          stride,
          convert,
          scalar,
          !convert && (stride == 1 || scalar)};
}

/// Whether the result waits for memory, is larger than the caches, in rows of several lines, and is none of
/// the inputs: their lines are read anyway.
bool streams(const Operand& out, int64_t numel, int64_t row, std::initializer_list<Operand> inputs) {
  constexpr int64_t shortest_row = 512;  // bytes
  const int64_t width = size_of(out.dtype);
  return out.waits_for_memory && row * width >= shortest_row && streams_past_caches(numel * width) &&
         std::none_of(inputs.begin(), inputs.end(), [&](const Operand& in) { return in.data == out.data; });
}

/// The operands' offsets of one row after another, by additions instead of divisions.
struct Walk {
  const StridedLoop<max_operands>& loop;
  int64_t index[Shape::max_ndim] = {};
  int64_t offsets[max_operands] = {};

  Walk(const StridedLoop<max_operands>& space, int64_t row) : loop(space) {
    loop.row_offsets(row, offsets);
    for (int i = loop.ndim - 2; i >= 0; --i) {
      index[i] = row % loop.extents[i];
      row /= loop.extents[i];
    }
  }
  void advance() {
    for (int i = loop.ndim - 2; i >= 0; --i) {
      const int64_t back = ++index[i] == loop.extents[i] ? loop.extents[i] : 0;
      for (int k = 0; k < max_operands; ++k) offsets[k] += (1 - back) * loop.strides[k][i];
      if (back == 0) return;
      index[i] = 0;
    }
  }
};

}  // namespace

void walk_blocks(const Shape& shape, const Operand& out, std::initializer_list<Operand> inputs,
                 FunctionRef<void(const Block&)> inner) {
  if (shape.numel() == 0) return;
  const int count = static_cast<int>(inputs.size());
  std::array<const Strides*, max_operands> strides;
  strides.fill(&out.strides);
  for (int k = 0; k < count; ++k) strides[k + 1] = &inputs.begin()[k].strides;
  const StridedLoop<max_operands> loop(shape, strides);

  Access access[max_operands] = {};
  const int last = loop.ndim - 1;
  bool direct = true;
  for (int k = 0; k <= count; ++k) {
    // A single element is contiguous whatever its stride.
    const int64_t stride = loop.inner() == 1 ? 1 : loop.strides[k][last];
    access[k] = access_of(k == 0 ? out : inputs.begin()[k - 1], stride, k == 0);
    direct = direct && access[k].direct;
  }

  const bool streamed = access[0].stride == 1 && streams(out, shape.numel(), loop.inner(), inputs);
  const int64_t length = loop.inner(), size = !direct    ? buffered_block
                                              : streamed ? streamed_block
                                                         : direct_block;
  const int64_t per_row = (length + size - 1) / size;
  const int64_t grain = std::max<int64_t>(1, grain_elements / std::min(size, length));
  parallel_for(loop.rows() * per_row, grain, [&](int64_t begin, int64_t end) {
    Buffer gathered[max_operands], converted[max_operands];
    ResultBuffer buffer;
    const StreamedResult result(streamed ? buffer.bytes : nullptr);
    Walk walk(loop, begin / per_row);
    int64_t block_in_row = begin % per_row;
    for (int64_t i = begin; i < end; ++i, ++block_in_row) {
      if (block_in_row == per_row) {
        walk.advance();
        block_in_row = 0;
      }
      const int64_t start = block_in_row * size;
      Block block;
      block.n = std::min(size, length - start);
      const auto address = [&](int k) {
        return access[k].data + (walk.offsets[k] + start * access[k].stride) * access[k].width;
      };
      for (int k = 1; k <= count; ++k) {
        block.in[k - 1] = fetch(access[k], address(k), block.n, gathered[k], converted[k]);
        block.scalar[k - 1] = access[k].scalar;
      }
      char* const to = result.block(address(0));
      block.out = access[0].direct ? to : gathered[0].bytes;
      inner(block);
      if (!access[0].direct) store(access[0], gathered[0].bytes, block.n, to, converted[0]);
      result.write(address(0), block.n * access[0].width);
    }
  });
}

}  // namespace tessera::kernels::cpu
