#include "autograd/functions/indexing/embedding_bag.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

Results call(const CaseInputs& g) {
  const std::string mode = g.text("mode");
  const bool has_offsets = !g.has("offsets") || g.flag("offsets"), has_factors = g.has("factors");
  const EmbeddingBagOptions options{.mode = mode == "sum"    ? BagMode::sum
                                            : mode == "mean" ? BagMode::mean
                                                             : BagMode::max,
                                    .include_last_offset = g.has("include_last_offset"),
                                    .padding_idx = g.has("padding_idx") ? g.integer("padding_idx") : -1};
  return embedding_bag(g.tensor(1), g[0], has_offsets ? g.optional_tensor(2) : Tensor(), options,
                       has_factors ? g.optional(has_offsets ? 3 : 2) : Variable());
}

}  // namespace

std::vector<OpRow> embedding_bag_rows() {
  return {
      {.name = "embedding_bag", .family = "embedding_bag", .call = &call},
      {.name = "embedding_bag_max_rows", .tested_in = "tests/ops/embedding_bag_rows.cpp"},
      {.name = "bags_of", .tested_in = "tests/ops/embedding_bag_rows.cpp"},
  };
}

}  // namespace tessera::test
