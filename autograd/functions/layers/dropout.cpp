#include "autograd/functions/layers/dropout.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/record.h"
#include "autograd/views/sample_layout.h"
#include "tensor/random/random_context.h"

namespace tessera {

DropoutMask resolved_mask(const char* where, const DropoutMask& mask, const Variable& x) {
  const Shape& shape = x.shape();  // throws for an undefined x, which has no layout
  DropoutMask resolved = mask;
  if (mask.samples.kind == SampleLayout::Kind::first) resolved.samples = x.impl()->current().samples;
  resolved.samples = resolve_samples(where, resolved.samples, shape, std::ssize(random_context().samples));
  return resolved;
}

Variable dropout(const Variable& x, double probability, uint64_t key, const SampleLayout& samples) {
  return dropout(x, {.probability = probability, .key = key, .samples = samples});
}

Variable dropout(const Variable& x, const DropoutMask& mask) {
  const DropoutMask resolved = resolved_mask("dropout", mask, x);
  const Variable y = record("dropout", ops::dropout(x.value(), resolved), {x}, saved(),
                            [resolved, context = random_context().without_calls()](
                                Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                              RandomContextScope forward_context(context);
                              return {dropout(dy[0], resolved)};
                            });
  set_sample_layout(y, resolved.samples);
  return y;
}

Variable add_dropout(const Variable& x, const Variable& delta, const DropoutMask& mask) {
  if (mask.probability == 0) return x + delta;
  if (autocast::mixes(x, delta)) [[unlikely]] {
    const DType dtype = autocast::widest({x, delta});
    return add_dropout(autocast::in_dtype(x, dtype), autocast::in_dtype(delta, dtype), mask);
  }
  const DropoutMask resolved = resolved_mask("add_dropout", mask, delta);
  const Variable y =
      record("add_dropout", ops::add_dropout(x.value(), delta.value(), resolved), {x, delta}, saved(),
             [resolved, context = random_context().without_calls()](Saved&, const Incoming& dy,
                                                                    const Wanted& wanted) -> Gradients {
               RandomContextScope forward_context(context);
               return {dy[0], wanted[1] ? dropout(dy[0], resolved) : Variable()};
             });
  set_sample_layout(y, resolved.samples);
  return y;
}

}  // namespace tessera
