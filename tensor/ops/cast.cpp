#include "tensor/ops/cast.h"
namespace tessera::ops {
namespace {
template <class F>
void with(DType t, F f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bfloat16{});
    case DType::f16:
      return f(float16{});
    case DType::i64:
      return f(int64_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
}
template <class T>
constexpr bool half = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;
}  // namespace
Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor out = Tensor::empty(x.shape(), dtype, x.device());
  if (x.is_meta()) return out;
  const Tensor c = x.contiguous();
  with(x.dtype(), [&](auto from) {
    with(dtype, [&](auto to) {
      using A = decltype(from);
      using B = decltype(to);
      const A* a = c.data<A>();
      B* b = out.data<B>();
      for (int64_t i = 0; i < c.numel(); ++i) {
        if constexpr (half<A> && half<B>)
          b[i] = B(static_cast<float>(a[i]));
        else if constexpr (half<A>)
          b[i] = static_cast<B>(static_cast<float>(a[i]));
        else if constexpr (half<B>)
          b[i] = B(static_cast<float>(a[i]));
        else
          b[i] = static_cast<B>(a[i]);
      }
    });
  });
  return out;
}
}  // namespace tessera::ops
