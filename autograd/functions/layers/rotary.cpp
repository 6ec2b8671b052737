#include "autograd/functions/layers/rotary.h"

#include "autograd/record.h"

namespace tessera {

Variable rotary(const Variable& x, const RotaryOptions& options, bool inverse) {
  return record("rotary", ops::rotary(x.value(), options, inverse), {x}, saved(),
                [options, inverse](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {rotary(dy[0], options, !inverse)};
                });
}

}  // namespace tessera
