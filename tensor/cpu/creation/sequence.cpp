#include "tensor/cpu/creation/sequence.h"

#include "tensor/cpu/elementwise/elementwise.h"
#include "tensor/cpu/loops/index_values.h"
#include "tensor/types/scalar.h"

namespace tessera::kernels::cpu {

void fill_sequence(const ops::Sequence& sequence, const Tensor& out) {
  const bool integers = sequence.kind == ops::Sequence::Kind::integers;
  const DType computed = integers ? i64 : f64;
  const Tensor values = out.dtype() == computed ? out : Tensor::empty(out.shape(), computed);
  for (int64_t i = 0; i < sequence.count; ++i) {
    if (integers)
      values.data<int64_t>()[i] = sequence.integer(i);
    else
      values.data<double>()[i] = sequence.real(i);
  }
  if (out.dtype() != computed) cast(values, out);
}

void one_hot(const Tensor& ids, int64_t classes, const Tensor& out) {
  const IndexValues id(ids);
  char* const bytes = static_cast<char*>(out.raw_data());
  const Scalar one = out.dtype() == boolean ? Scalar(true) : Scalar(1);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    require<IndexError>(id[i] >= 0 && id[i] < classes, "one_hot: id ", id[i], " at position ", i,
                        " is outside [0, ", classes, ")");
    one.write(out.dtype(), bytes + (i * classes + id[i]) * size_of(out.dtype()), "one_hot");
  }
}

}  // namespace tessera::kernels::cpu
