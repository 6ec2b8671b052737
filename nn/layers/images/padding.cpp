#include "nn/layers/images/padding.h"

namespace tessera::nn {

template <int dims, PaddingMode mode>
Pad<dims, mode>::Pad(PadOptions options) : Layer<Pad<dims, mode>, PadOptions>(options) {
  Shape& padding = this->o.padding;
  if (padding.ndim() == 1) padding = Shape::filled(2 * dims, padding[0]);
  require<ConfigError>(padding.ndim() == 2 * dims, "nn::", kind(), ": expected a padding of 1 or ", 2 * dims,
                       " entries, got ", padding);
}

template <int dims, PaddingMode mode>
std::string Pad<dims, mode>::kind() const {
  const char* name = mode == PaddingMode::constant    ? "ConstantPad"
                     : mode == PaddingMode::reflect   ? "ReflectionPad"
                     : mode == PaddingMode::replicate ? "ReplicationPad"
                                                      : "CircularPad";
  return text(name, dims, "d");
}

template <int dims, PaddingMode mode>
Variable Pad<dims, mode>::forward(const Variable& x) const {
  require<ShapeError>(x.ndim() == dims + 1 || x.ndim() == dims + 2, "nn::", kind(), " '", this->full_name(),
                      "': expected an input of ", dims + 1, " or ", dims + 2, " dimensions; x is ", x);
  return pad(x, this->o.padding, mode, this->o.value);
}

template struct Pad<1, PaddingMode::constant>;
template struct Pad<2, PaddingMode::constant>;
template struct Pad<3, PaddingMode::constant>;
template struct Pad<1, PaddingMode::reflect>;
template struct Pad<2, PaddingMode::reflect>;
template struct Pad<3, PaddingMode::reflect>;
template struct Pad<1, PaddingMode::replicate>;
template struct Pad<2, PaddingMode::replicate>;
template struct Pad<3, PaddingMode::replicate>;
template struct Pad<1, PaddingMode::circular>;
template struct Pad<2, PaddingMode::circular>;
template struct Pad<3, PaddingMode::circular>;

}  // namespace tessera::nn
