#include "models/sampling.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "autograd/grad_mode.h"
#include "tensor/error.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/random/philox.h"

namespace tessera::models {
namespace {

Tensor ids_tensor(std::span<const int64_t> ids) {
  return Tensor::from(ids, {1, std::ssize(ids)});
}

/// The logits (V) f64 of the last position, for the first `vocabulary` ids.
Tensor last_logits(const Variable& logits, int64_t vocabulary) {
  const Tensor last = logits.value().select(1, -1).select(0, 0).to(cpu());
  return ops::cast(last.narrow(0, 0, vocabulary), f64).contiguous();
}

}  // namespace

int64_t draw(const Tensor& logits, const SamplingOptions& options, int64_t position) {
  const int64_t count = logits.numel();
  const double* scores = logits.data<double>();
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [scores](int64_t a, int64_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  const int64_t kept = options.top_k > 0 ? std::min(options.top_k, count) : count;
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), likelier);
  if (options.temperature == 0) return order[0];

  std::vector<double> weights(kept);
  double total = 0;
  for (int64_t i = 0; i < kept; ++i)
    total += weights[i] = std::exp((scores[order[i]] - scores[order[0]]) / options.temperature);
  const auto block = elementwise::random_block(options.seed, static_cast<uint64_t>(position), 0, 0);
  double left = elementwise::uniform_f64(block.word[0], block.word[1]) * total;
  for (int64_t i = 0; i < kept; ++i)
    if ((left -= weights[i]) < 0) return order[i];
  return order[kept - 1];
}

void check(const SamplingOptions& o, int64_t model_vocabulary) {
  require<ConfigError>(o.length >= 0, "sampling: length ", o.length, ": expected 0 or more");
  require<ConfigError>(o.temperature >= 0 && std::isfinite(o.temperature), "sampling: temperature ",
                       o.temperature, ": expected 0 or more");
  require<ConfigError>(o.top_k >= 0 && o.top_k <= model_vocabulary, "sampling: top_k ", o.top_k,
                       ": expected 0 to the vocabulary's ", model_vocabulary);
}

void sample(Gpt& gpt, std::span<const int64_t> prompt, const SamplingOptions& options,
            const std::function<void(int64_t id)>& emit) {
  check(options, gpt.o.vocabulary);
  require<ConfigError>(!prompt.empty(), "sampling: the prompt is empty; give at least one character");
  const NoGrad no_grad;
  gpt.eval();
  const Device device = gpt.wte.weight.device();
  const int64_t vocabulary = options.vocabulary > 0 ? options.vocabulary : gpt.o.vocabulary;
  const size_t block = static_cast<size_t>(gpt.o.block_size);
  std::vector<int64_t> context(prompt.end() - static_cast<int64_t>(std::min(prompt.size(), block)),
                               prompt.end());
  GptCache cache = gpt.make_cache(1);
  for (int64_t position = 0; position < options.length; ++position) {
    if (context.size() > block) {
      context.erase(context.begin(), context.end() - static_cast<int64_t>(std::max<size_t>(1, block / 2)));
      cache.clear();
    }
    const std::span<const int64_t> all(context);
    const Variable logits =
        options.use_cache
            ? gpt.forward_cached(ids_tensor(all.subspan(static_cast<size_t>(cache.length()))).to(device),
                                 cache)
            : gpt(ids_tensor(all).to(device));
    context.push_back(draw(last_logits(logits, vocabulary), options, position));
    emit(context.back());
  }
}

}  // namespace tessera::models
