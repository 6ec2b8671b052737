// Flash attention: head sizes, lengths, types, layouts, masks.
#include "tests/cuda_sim/libraries/cudnn_graphs/attention.h"
#include "tests/cuda_sim/libraries/cudnn_probe/table.h"
namespace cudnn_graphs {
namespace {

constexpr auto f32 = CUDNN_DATA_FLOAT, f16 = CUDNN_DATA_HALF, bf16 = CUDNN_DATA_BFLOAT16,
               f64 = CUDNN_DATA_DOUBLE;

void add_attention(std::vector<TableRow>& rows, const std::string& name, const Attention& a,
                   bool backward = true) {
  rows.push_back({"attention " + name, [=](Graph& g) { attention_forward(g, a); }});
  if (backward) rows.push_back({"attention backward " + name, [=](Graph& g) { attention_backward(g, a); }});
}

void add_attentions(std::vector<TableRow>& rows) {
  for (const int64_t head : {8, 36, 40, 64, 128, 256, 264})
    add_attention(rows, "D " + std::to_string(head), {.head = head});
  add_attention(rows, "f16", {.type = f16});
  add_attention(rows, "f32", {.type = f32});
  add_attention(rows, "f32 D 36", {.head = 36, .type = f32}, false);
  add_attention(rows, "value D 36", {.head = 64, .value_head = 36}, false);
  add_attention(rows, "one query causal", {.queries = 1, .keys = 200, .causal = true});
  add_attention(rows, "f64", {.type = f64});
  add_attention(rows, "causal", {.causal = true});
  add_attention(rows, "bias", {.bias = true});
  add_attention(rows, "dropout", {.dropout = 0.1});
  add_attention(rows, "causal dropout", {.causal = true, .dropout = 0.1});
  add_attention(rows, "odd length", {.queries = 77, .keys = 77});
  add_attention(rows, "causal odd length", {.queries = 77, .keys = 77, .causal = true});
  add_attention(rows, "cross", {.queries = 64, .keys = 200});
  add_attention(rows, "one query", {.queries = 1, .keys = 200});
  add_attention(rows, "short", {.queries = 8, .keys = 8});
  add_attention(rows, "bshd", {.layout = AttentionLayout::bshd});
  add_attention(rows, "qkv", {.layout = AttentionLayout::qkv});
  add_attention(rows, "rows 4 apart", {.row_padding = 4});
  add_attention(rows, "rows 1 apart", {.row_padding = 1});
  add_attention(rows, "rows 8 apart", {.row_padding = 8});
  add_attention(rows, "f16 statistics", {.stats_type = f16});
  add_attention(rows, "f16 compute", {.compute = f16});
  add_attention(rows, "statistics not wanted", {.stats = false}, false);
  add_attention(rows, "no scale", {.has_scale = false}, false);
  add_attention(rows, "grouped heads", {.heads = 8, .kv_heads = 2}, false);
  add_attention(rows, "heads do not divide", {.heads = 6, .kv_heads = 4}, false);
  add_attention(rows, "other value size", {.head = 64, .value_head = 128}, false);
}

}  // namespace

std::vector<TableRow> attention_rows() {
  std::vector<TableRow> rows;
  add_attentions(rows);
  return rows;
}

}  // namespace cudnn_graphs
