#include "tests/cuda_sim/libraries/cudnn_probe/table.h"

#include "tests/cuda_sim/libraries/cudnn_graphs/attention.h"
#include "tests/cuda_sim/libraries/cudnn_graphs/layers.h"

namespace cudnn_graphs {
namespace {

using Rows = std::vector<TableRow>;

constexpr auto f32 = CUDNN_DATA_FLOAT, f16 = CUDNN_DATA_HALF, bf16 = CUDNN_DATA_BFLOAT16,
               f64 = CUDNN_DATA_DOUBLE;

void add_attention(Rows& rows, const std::string& name, const Attention& a, bool backward = true) {
  rows.push_back({"attention " + name, [=](Graph& g) { attention_forward(g, a); }});
  if (backward) rows.push_back({"attention backward " + name, [=](Graph& g) { attention_backward(g, a); }});
}

void add_attentions(Rows& rows) {
  for (const int64_t head : {8, 36, 40, 64, 72, 96, 128, 192, 256, 264})
    add_attention(rows, "D " + std::to_string(head), {.head = head});
  add_attention(rows, "f16", {.type = f16});
  add_attention(rows, "f32", {.type = f32});
  add_attention(rows, "f64", {.type = f64});
  add_attention(rows, "causal", {.causal = true});
  add_attention(rows, "causal D 128", {.head = 128, .causal = true});
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
  add_attention(rows, "no statistics", {.stats = false}, false);
  add_attention(rows, "no scale", {.has_scale = false}, false);
  add_attention(rows, "grouped heads", {.heads = 8, .kv_heads = 2}, false);
  add_attention(rows, "heads do not divide", {.heads = 6, .kv_heads = 4}, false);
  add_attention(rows, "other value size", {.head = 64, .value_head = 128}, false);
}

void add_convolution(Rows& rows, const std::string& name, const Convolution& c, bool gradients = true) {
  rows.push_back({"convolution " + name, [=](Graph& g) { convolution_forward(g, c); }});
  if (!gradients) return;
  rows.push_back({"data gradient " + name, [=](Graph& g) { convolution_data_gradient(g, c); }});
  rows.push_back({"filter gradient " + name, [=](Graph& g) { convolution_filter_gradient(g, c); }});
}

void add_convolutions(Rows& rows) {
  const ConvolutionSizes plain{.padding = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
  for (const auto& [name, type] : {std::pair{"bf16", bf16}, {"f16", f16}, {"f32", f32}, {"f64", f64}})
    for (const bool inside : {true, false}) {
      Convolution c{.type = type, .channels_inside = inside};
      if (type == f64) c.sizes.compute = f64;
      add_convolution(rows, std::string(name) + (inside ? " nhwc" : " nchw"), c, type != f64);
    }
  add_convolution(rows, "3 channels", {.x = {2, 3, 10, 10}, .w = {16, 3, 3, 3}});
  add_convolution(rows, "5 channels out", {.w = {5, 8, 3, 3}});
  add_convolution(rows, "f32 nchw 3 channels", {.x = {2, 3, 10, 10}, .w = {16, 3, 3, 3}, .type = f32, .channels_inside = false});
  add_convolution(rows, "f32 nhwc 3 channels", {.x = {2, 3, 10, 10}, .w = {5, 3, 3, 3}, .type = f32});
  add_convolution(rows, "nchw 3 channels", {.x = {2, 3, 10, 10}, .w = {5, 3, 3, 3}, .channels_inside = false});
  add_convolution(rows, "alignment 2", {.alignment = 2});
  add_convolution(rows, "f32 alignment 4", {.type = f32, .alignment = 4});
  add_convolution(rows, "stride 2", {.sizes = {.padding = {1, 1}, .stride = {2, 2}, .dilation = {1, 1}}});
  add_convolution(rows, "stride above kernel", {.w = {16, 8, 1, 1}, .sizes = {.padding = {0, 0}, .stride = {2, 2}, .dilation = {1, 1}}});
  add_convolution(rows, "dilation 2", {.sizes = {.padding = {2, 2}, .stride = {1, 1}, .dilation = {2, 2}}});
  add_convolution(rows, "uneven", {.x = {2, 8, 9, 12}, .sizes = {.padding = {0, 2}, .stride = {2, 1}, .dilation = {1, 2}}});
  add_convolution(rows, "one-sided padding", {.sizes = {.padding = {0, 0}, .stride = {1, 1}, .dilation = {1, 1}, .post_padding = {1, 1}}});
  add_convolution(rows, "f32 one-sided padding", {.sizes = {.padding = {0, 0}, .stride = {1, 1}, .dilation = {1, 1}, .post_padding = {1, 1}}, .type = f32});
  add_convolution(rows, "padding above kernel", {.sizes = {.padding = {4, 4}, .stride = {1, 1}, .dilation = {1, 1}}});
  add_convolution(rows, "groups", {.x = {2, 16, 10, 10}, .w = {16, 8, 3, 3}});
  add_convolution(rows, "groups of 4", {.x = {2, 16, 10, 10}, .w = {16, 4, 3, 3}});
  add_convolution(rows, "f32 groups", {.x = {2, 16, 10, 10}, .w = {16, 4, 3, 3}, .type = f32});
  add_convolution(rows, "f32 nchw groups", {.x = {2, 16, 10, 10}, .w = {16, 4, 3, 3}, .type = f32, .channels_inside = false});
  add_convolution(rows, "depthwise", {.x = {2, 16, 10, 10}, .w = {16, 1, 3, 3}});
  add_convolution(rows, "nchw depthwise", {.x = {2, 16, 10, 10}, .w = {16, 1, 3, 3}, .channels_inside = false});
  add_convolution(rows, "groups do not divide", {.x = {2, 10, 10, 10}, .w = {16, 4, 3, 3}});
  add_convolution(rows, "1d as 2d", {.x = {2, 8, 1, 30}, .w = {16, 8, 1, 3}, .sizes = {.padding = {0, 1}, .stride = {1, 1}, .dilation = {1, 1}}});
  add_convolution(rows, "1d", {.x = {2, 8, 30}, .w = {16, 8, 3}, .sizes = {.padding = {1}, .stride = {1}, .dilation = {1}}});
  add_convolution(rows, "f32 nchw 1d", {.x = {2, 8, 30}, .w = {16, 8, 3}, .sizes = {.padding = {1}, .stride = {1}, .dilation = {1}}, .type = f32, .channels_inside = false});
  add_convolution(rows, "3d", {.x = {2, 8, 6, 6, 6}, .w = {16, 8, 3, 3, 3}, .sizes = {.padding = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}}});
  add_convolution(rows, "f32 nchw 3d", {.x = {2, 8, 6, 6, 6}, .w = {16, 8, 3, 3, 3}, .sizes = {.padding = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}}, .type = f32, .channels_inside = false});
  add_convolution(rows, "f32 compute f16", {.sizes = {.padding = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .compute = f16}, .type = f32}, false);
  add_convolution(rows, "f16 compute f16", {.sizes = {.padding = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .compute = f16}, .type = f16}, false);
  add_convolution(rows, "flipped", {.sizes = {.padding = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .mode = CUDNN_CONVOLUTION}});
  add_convolution(rows, "f32 from bf16", {.out = f32}, false);
  rows.push_back({"filter gradient f32 from bf16", [](Graph& g) { convolution_filter_gradient(g, {.out = f32}); }});
  rows.push_back({"filter gradient f32 from bf16 nchw", [](Graph& g) { convolution_filter_gradient(g, {.channels_inside = false, .out = f32}); }});
  add_convolution(rows, "bias", {.bias = true}, false);
  add_convolution(rows, "bias relu", {.bias = true, .relu = true}, false);
  add_convolution(rows, "bias add relu", {.bias = true, .relu = true, .add = true}, false);
  add_convolution(rows, "relu", {.relu = true}, false);
  add_convolution(rows, "add relu", {.relu = true, .add = true}, false);
  add_convolution(rows, "f32 bias relu", {.type = f32, .bias = true, .relu = true}, false);
  add_convolution(rows, "f32 nchw bias relu", {.type = f32, .channels_inside = false, .bias = true, .relu = true}, false);
  add_convolution(rows, "nchw bias relu", {.channels_inside = false, .bias = true, .relu = true}, false);
  add_convolution(rows, "f32 nchw bias add relu", {.type = f32, .channels_inside = false, .bias = true, .relu = true, .add = true}, false);
  add_convolution(rows, "3 channels bias relu", {.x = {2, 3, 10, 10}, .w = {5, 3, 3, 3}, .bias = true, .relu = true}, false);
  add_convolution(rows, "groups bias relu", {.x = {2, 16, 10, 10}, .w = {16, 8, 3, 3}, .bias = true, .relu = true}, false);
  (void)plain;
}

void add_norms(Rows& rows) {
  const auto add = [&](const std::string& name, const Norm& n) {
    rows.push_back({"norm training " + name, [=](Graph& g) { norm_training(g, n); }});
    rows.push_back({"norm inference " + name, [=](Graph& g) { norm_inference(g, n); }});
    rows.push_back({"norm gradient " + name, [=](Graph& g) { norm_gradient(g, n); }});
  };
  for (const auto& [name, type] : {std::pair{"bf16", bf16}, {"f16", f16}, {"f32", f32}, {"f64", f64}})
    for (const bool inside : {true, false})
      add(std::string(name) + (inside ? " nhwc" : " nchw"), {.type = type, .channels_inside = inside});
  add("without running statistics", {.running = false});
  add("5 channels", {.x = {4, 5, 6, 6}});
  add("64 channels", {.x = {16, 64, 8, 8}});
  add("f32 64 channels", {.x = {16, 64, 8, 8}, .type = f32});
  add("3d", {.x = {2, 8, 4, 6, 6}});
  add("bf16 parameters", {.parameter_type = bf16});
  add("layer", {.mode = CUDNN_LAYER_NORM, .x = {64, 128, 1, 1}});
  add("layer f32", {.mode = CUDNN_LAYER_NORM, .x = {64, 128, 1, 1}, .type = f32});
  add("layer bf16 parameters", {.mode = CUDNN_LAYER_NORM, .x = {64, 128, 1, 1}, .parameter_type = bf16});
  add("layer 100", {.mode = CUDNN_LAYER_NORM, .x = {64, 100, 1, 1}});
}

void add_matmul(Rows& rows, const std::string& name, const Sizes& a, const Sizes& b, cudnnDataType_t type,
                int64_t alignment = 16, cudnnDataType_t compute = f32) {
  rows.push_back({"matmul " + name, [=](Graph& g) {
                    const Id left = g.tensor(a, packed(a), {.type = type, .alignment = alignment});
                    const Id right = g.tensor(b, packed(b), {.type = type, .alignment = alignment});
                    Sizes c = a;
                    c.back() = b.back();
                    const Id out = g.tensor(c, packed(c), {.type = type, .alignment = alignment});
                    g.matmul(left, right, out, compute);
                  }});
}

void add_others(Rows& rows) {
  add_matmul(rows, "bf16", {2, 32, 64}, {2, 64, 48}, bf16);
  add_matmul(rows, "f16", {2, 32, 64}, {2, 64, 48}, f16);
  add_matmul(rows, "f32", {2, 32, 64}, {2, 64, 48}, f32);
  add_matmul(rows, "f64", {2, 32, 64}, {2, 64, 48}, f64, 16, f64);
  add_matmul(rows, "odd", {2, 31, 63}, {2, 63, 47}, bf16, 2);
  add_matmul(rows, "odd f32", {2, 31, 63}, {2, 63, 47}, f32, 4);
  add_matmul(rows, "broadcast", {2, 32, 64}, {1, 64, 48}, bf16);
  add_matmul(rows, "does not fit", {2, 32, 64}, {2, 32, 48}, bf16);
  add_matmul(rows, "two dimensions", {32, 64}, {64, 48}, bf16);
  const Sizes shape{2, 8, 6, 6};
  const auto pointwise = [&](const std::string& name, cudnnPointwiseMode_t mode, const Sizes& b,
                             cudnnDataType_t type, cudnnDataType_t compute) {
    rows.push_back({"pointwise " + name, [=](Graph& g) {
                      const Id x = g.tensor(shape, type), other = b.empty() ? 0 : g.tensor(b, type);
                      g.pointwise(mode, x, other, g.tensor(shape, type), {.compute = compute});
                    }});
  };
  pointwise("add", CUDNN_POINTWISE_ADD, shape, bf16, f32);
  pointwise("add f32", CUDNN_POINTWISE_ADD, shape, f32, f32);
  pointwise("add f64", CUDNN_POINTWISE_ADD, shape, f64, f64);
  pointwise("add in f64", CUDNN_POINTWISE_ADD, shape, f32, f64);
  pointwise("add in f16", CUDNN_POINTWISE_ADD, shape, f16, f16);
  pointwise("add a channel", CUDNN_POINTWISE_ADD, {1, 8, 1, 1}, bf16, f32);
  pointwise("add what does not fit", CUDNN_POINTWISE_ADD, {1, 5, 1, 1}, bf16, f32);
  pointwise("add other rank", CUDNN_POINTWISE_ADD, {8, 6, 6}, bf16, f32);
  pointwise("exp", CUDNN_POINTWISE_EXP, {}, f32, f32);
  pointwise("gelu", CUDNN_POINTWISE_GELU_FWD, {}, bf16, f32);
  pointwise("binary without b", CUDNN_POINTWISE_MUL, {}, bf16, f32);
  pointwise("unary with b", CUDNN_POINTWISE_EXP, shape, bf16, f32);
  for (const auto& [name, y] : {std::pair{"all", Sizes{1, 1, 1, 1}}, {"columns", Sizes{1, 8, 1, 1}}, {"rows", Sizes{2, 8, 6, 1}}, {"does not fit", Sizes{2, 5, 6, 1}}})
    for (const auto type : {f32, bf16})
      rows.push_back({std::string("reduction ") + name + (type == f32 ? " f32" : " bf16"),
                      [=](Graph& g) { g.reduce(CUDNN_REDUCE_TENSOR_ADD, g.tensor(shape, type), g.tensor(y, f32)); }});
  rows.push_back({"pointwise backward relu", [=](Graph& g) {
                    const Id dy = g.tensor(shape, bf16), x = g.tensor(shape, bf16);
                    g.pointwise_backward(CUDNN_POINTWISE_RELU_BWD, dy, x, g.tensor(shape, bf16));
                  }});
  rows.push_back({"a tensor nothing makes", [=](Graph& g) {
                    const Id x = g.intermediate(shape), y = g.tensor(shape, f32);
                    g.pointwise(CUDNN_POINTWISE_EXP, x, 0, y);
                  }});
  rows.push_back({"a cycle", [=](Graph& g) {
                    const Id x = g.intermediate(shape), y = g.intermediate(shape);
                    g.pointwise(CUDNN_POINTWISE_EXP, x, 0, y);
                    g.pointwise(CUDNN_POINTWISE_EXP, y, 0, x);
                  }});
  rows.push_back({"two writers", [=](Graph& g) {
                    const Id x = g.tensor(shape), y = g.tensor(shape);
                    g.pointwise(CUDNN_POINTWISE_EXP, x, 0, y);
                    g.pointwise(CUDNN_POINTWISE_SQRT, x, 0, y);
                  }});
  rows.push_back({"no operations", [=](Graph&) {}});
}

}  // namespace

std::vector<TableRow> table() {
  Rows rows;
  add_attentions(rows);
  add_convolutions(rows);
  add_norms(rows);
  add_others(rows);
  return rows;
}

}  // namespace cudnn_graphs
