#pragma once  // internal

#include <algorithm>

#include "tensor/arguments/dropout.h"
#include "tensor/cuda/runtime/host_values.cuh"
#include "tensor/random/philox.h"

/// The mask of dropout in a kernel: the CPU's, to the bit.
namespace tessera::kernels::cuda {

/// A DropoutRows as a kernel's argument, __grid_constant__.
struct DropoutArgument {
  uint64_t key = 0;
  int64_t length = 1, first_index = 0;
  double scale = 1;  ///< 1 / (1 - probability)
  uint32_t step = 0, threshold = 0, count = 1;
  HostValues<uint32_t> samples = {};
};

/// The argument for the rows; it lives while kernels are given to the stream. Without rows it drops nothing.
class DropoutMaskOnDevice {
 public:
  DropoutMaskOnDevice(const ops::DropoutRows* rows, Device device)
      : samples_(rows != nullptr ? std::span<const uint32_t>(rows->samples) : std::span<const uint32_t>(),
                 device) {
    if (rows == nullptr) return;
    argument_.key = rows->key;
    argument_.length = rows->length;
    argument_.first_index = rows->first_index;
    argument_.scale = 1.0 / (1.0 - rows->probability);
    argument_.step = rows->step;
    argument_.threshold = static_cast<uint32_t>(
        std::min<uint64_t>(elementwise::bernoulli_threshold(rows->probability), 0xffffffffu));
    argument_.count = static_cast<uint32_t>(std::max<size_t>(rows->samples.size(), 1));
    argument_.samples = samples_.argument();
  }
  const DropoutArgument& argument() const { return argument_; }

 private:
  HostList<uint32_t> samples_;
  DropoutArgument argument_;
};

/// Drops elements in their order, from one on. A block of four random words is made once for its elements.
class Dropper {
 public:
  /// `element`: the first one's number in the tensor.
  __device__ Dropper(const DropoutArgument& mask, int64_t element)
      : mask_(mask), row_(element / mask.length), offset_(element - row_ * mask.length) {
    begin_row();
  }

  /// The next element x, divided by 1 - probability or 0.
  template <class A>
  __device__ A operator()(A x) {
    const auto word = static_cast<uint32_t>(index_) & 3;
    if (word == 0 || !has_block_) {
      block_ = elementwise::random_block(mask_.key, static_cast<uint64_t>(index_) / 4, sample_, mask_.step);
      has_block_ = true;
    }
    // No index into the four words: they stay in registers.
    const uint32_t low = word & 1 ? block_.word[1] : block_.word[0],
                   high = word & 1 ? block_.word[3] : block_.word[2];
    ++index_;
    if (++offset_ == mask_.length) {
      ++row_;
      offset_ = 0;
      begin_row();
    }
    const A scaled = x * static_cast<A>(mask_.scale);
    return (word & 2 ? high : low) < mask_.threshold ? A(0) : scaled;
  }

 private:
  __device__ void begin_row() {
    const int64_t outer = row_ / mask_.count;
    sample_ = mask_.samples[row_ - outer * mask_.count];
    index_ = mask_.first_index + outer * mask_.length + offset_;
    has_block_ = false;
  }

  const DropoutArgument& mask_;
  int64_t row_, offset_, index_ = 0;
  uint32_t sample_ = 0;
  bool has_block_ = false;
  elementwise::PhiloxBlock block_ = {};
};

}  // namespace tessera::kernels::cuda
