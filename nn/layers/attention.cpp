#include "nn/layers/attention.h"

#include "autograd/functions/layers/attention.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "tensor/random/random_context.h"

namespace tessera::nn {

CausalSelfAttention::CausalSelfAttention(Options options) : Layer(std::move(options)) {
  require<ConfigError>(o.heads >= 1 && o.width % o.heads == 0, "nn::CausalSelfAttention: ", o.heads,
                       " heads do not divide the width ", o.width);
  require<ConfigError>(o.dropout >= 0 && o.dropout < 1,
                       "nn::CausalSelfAttention: expected dropout in [0, 1), got ", o.dropout);
}

Variable CausalSelfAttention::forward(const Variable& x) const {
  return apply_dropout(attend(x));
}

BeforeDropout CausalSelfAttention::forward_before_dropout(const Variable& x) const {
  return call(rerunnable([this](const Variable& in) { return attend(in); }), x);
}

Variable CausalSelfAttention::forward_cached(const Variable& x, KeyValueCache& cache,
                                             std::span<const int64_t> counts) const {
  return call([&](const Variable& in) { return apply_dropout(attend_cached(in, cache, counts)); }, x);
}

BeforeDropout CausalSelfAttention::attend(const Variable& x) const {
  AttentionOptions options{.causal = true};
  if (is_training() && o.dropout > 0) {
    options.dropout = o.dropout;
    options.key = next_random_key(full_name());
  }
  return project(self_attention(c_attn(x), o.heads, options));
}

/// The projection of the heads' results, and the mask that the result's dropout has in this call.
BeforeDropout CausalSelfAttention::project(const Variable& heads) const {
  BeforeDropout result{c_proj(heads)};
  if (is_training() && o.dropout > 0)
    result.mask = {.probability = o.dropout, .key = next_random_key(full_name())};
  return result;
}

BeforeDropout CausalSelfAttention::attend_cached(const Variable& x, KeyValueCache& cache,
                                                 std::span<const int64_t> counts) const {
  require<AutogradError>(!grad_mode(), "nn::CausalSelfAttention '", full_name(),
                         "': cached decoding records no gradients; run it under NoGrad");
  const Tensor qkv = c_attn(x).value();
  if (qkv.ndim() == 2) {
    const auto third = [&](int64_t i) {
      return qkv.narrow(1, i * o.width, o.width).view({qkv.size(0), o.heads, o.width / o.heads});
    };
    const Tensor out = cache.attend_packed(third(0), third(1), third(2), {}, counts);
    return project(out.view({qkv.size(0), o.width}));
  }
  const int64_t batch = qkv.size(0), time = qkv.size(1), head = o.width / o.heads;
  const auto heads_of = [&](int64_t third) {  // 0: queries, 1: keys, 2: values
    return qkv.narrow(2, third * o.width, o.width).view({batch, time, o.heads, head}).transpose(1, 2);
  };
  const Variable out = cache.attend(heads_of(0), heads_of(1), heads_of(2), {}, counts);
  return project(reshape(transpose(out, 1, 2), {batch, time, o.width}));
}

}  // namespace tessera::nn
