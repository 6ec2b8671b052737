// Modules of a GPT that are checkpointed from outside.

#include <doctest/doctest.h>

#include <cstring>

#include "autograd/debug/graph_dot.h"
#include "models/gpt.h"
#include "nn/checkpoint_modules.h"
#include "nn/materialize.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].raw_data(), b[i].raw_data(), static_cast<size_t>(a[i].nbytes())) != 0) return false;
  return true;
}

}  // namespace

TEST_CASE("checkpointed modules: the parts of a GPT's blocks, within checkpointed blocks too") {
  constexpr int64_t batch = 2, length = 16;
  models::Gpt gpt({.vocabulary = 11,
                   .block_size = length,
                   .layers = 4,
                   .heads = 2,
                   .width = 32,
                   .dropout = 0.2,
                   .bias = true});
  nn::materialize(gpt, cpu(), 3);
  const Tensor ids = Tensor::empty({batch, length}, i64);
  for (int64_t i = 0; i < ids.numel(); ++i) ids.data<int64_t>()[i] = i * i % 11;
  struct Pass {
    int64_t saved = 0, peak = 0;
    std::vector<Tensor> gradients;
  };
  const auto pass = [&] {
    begin_random_step(1, 0, {});
    Pass result;
    for (const NamedParameter& parameter : gpt.parameters())
      parameter.variable.set_grad(ops::zeros(parameter.variable.shape()));
    {
      const auto account = make_intrusive<MemoryAccount>();
      const AccountScope scope(account);
      const Variable loss = gpt.loss(ids, ids);
      result.saved = saved_bytes(loss);
      loss.backward();
      result.peak = account->total().peak;
    }
    for (const NamedParameter& parameter : gpt.parameters())
      result.gradients.push_back(parameter.variable.grad().value());
    return result;
  };
  const Pass all = pass();
  CHECK(nn::checkpoint_matching(gpt, "Mlp|CausalSelfAttention").size() == 8);
  const Pass parts = pass();
  nn::end_checkpointing(gpt);
  CHECK(nn::checkpoint_every<models::Block>(gpt).size() == 4);
  const Pass blocks = pass();
  nn::checkpoint_matching(gpt, "Mlp|CausalSelfAttention");
  const Pass both = pass();
  for (const Pass* some : {&parts, &blocks, &both}) CHECK(same_bits(some->gradients, all.gradients));
  CHECK(parts.saved < all.saved * 6 / 10);
  CHECK(blocks.saved < parts.saved);
  CHECK(both.saved == blocks.saved);
  CHECK(both.peak < blocks.peak);  // a block runs again in two parts
  // The model as a whole: its loss is a named call.
  nn::end_checkpointing(gpt);
  gpt.set_checkpointed(true);
  CHECK(same_bits(pass().gradients, all.gradients));
}
