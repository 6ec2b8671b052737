// Convolutions and their gradients: types, layouts, sizes, groups, and what stands behind them.
#include "tests/cuda_sim/libraries/cudnn_graphs/layers.h"
#include "tests/cuda_sim/libraries/cudnn_probe/table.h"
namespace cudnn_graphs {
namespace {

constexpr auto f32 = CUDNN_DATA_FLOAT, f16 = CUDNN_DATA_HALF, bf16 = CUDNN_DATA_BFLOAT16,
               f64 = CUDNN_DATA_DOUBLE;

void add_convolution(std::vector<TableRow>& rows, const std::string& name, const Convolution& c,
                     bool gradients = true) {
  rows.push_back({"convolution " + name, [=](Graph& g) { convolution_forward(g, c); }});
  if (!gradients) return;
  rows.push_back({"data gradient " + name, [=](Graph& g) { convolution_data_gradient(g, c); }});
  rows.push_back({"filter gradient " + name, [=](Graph& g) { convolution_filter_gradient(g, c); }});
}

void add_types(std::vector<TableRow>& rows) {
  for (const auto& [name, type] : {std::pair{"bf16", bf16}, {"f16", f16}, {"f32", f32}, {"f64", f64}})
    for (const bool inside : {true, false}) {
      Convolution c{.type = type, .channels_inside = inside};
      if (type == f64) c.sizes.compute = f64;
      add_convolution(rows, std::string(name) + (inside ? " nhwc" : " nchw"), c);
    }
  add_convolution(rows, "3 channels", {.x = {2, 3, 10, 10}, .w = {16, 3, 3, 3}});
  add_convolution(rows, "5 channels out", {.w = {5, 8, 3, 3}});
  add_convolution(rows, "f32 nchw 3 channels",
                  {.x = {2, 3, 10, 10}, .w = {16, 3, 3, 3}, .type = f32, .channels_inside = false});
  add_convolution(rows, "f32 nhwc 3 channels", {.x = {2, 3, 10, 10}, .w = {5, 3, 3, 3}, .type = f32});
  add_convolution(rows, "nchw 3 channels",
                  {.x = {2, 3, 10, 10}, .w = {5, 3, 3, 3}, .channels_inside = false});
  add_convolution(rows, "alignment 2", {.alignment = 2});
  add_convolution(rows, "f32 alignment 4", {.type = f32, .alignment = 4});
}

void add_sizes(std::vector<TableRow>& rows) {
  add_convolution(rows, "stride 2", {.sizes = {.padding = {1, 1}, .stride = {2, 2}, .dilation = {1, 1}}});
  add_convolution(rows, "stride above kernel",
                  {.w = {16, 8, 1, 1}, .sizes = {.padding = {0, 0}, .stride = {2, 2}, .dilation = {1, 1}}});
  add_convolution(rows, "dilation 2", {.sizes = {.padding = {2, 2}, .stride = {1, 1}, .dilation = {2, 2}}});
  add_convolution(rows, "uneven",
                  {.x = {2, 8, 9, 12}, .sizes = {.padding = {0, 2}, .stride = {2, 1}, .dilation = {1, 2}}});
  add_convolution(
      rows, "one-sided padding",
      {.sizes = {.padding = {0, 0}, .stride = {1, 1}, .dilation = {1, 1}, .post_padding = {1, 1}}});
  add_convolution(rows, "f32 one-sided padding",
                  {.sizes = {.padding = {0, 0}, .stride = {1, 1}, .dilation = {1, 1}, .post_padding = {1, 1}},
                   .type = f32});
  add_convolution(rows, "padding above kernel",
                  {.sizes = {.padding = {4, 4}, .stride = {1, 1}, .dilation = {1, 1}}});
  add_convolution(rows, "groups", {.x = {2, 16, 10, 10}, .w = {16, 8, 3, 3}});
  add_convolution(rows, "groups of 4", {.x = {2, 16, 10, 10}, .w = {16, 4, 3, 3}});
  add_convolution(rows, "f32 groups", {.x = {2, 16, 10, 10}, .w = {16, 4, 3, 3}, .type = f32});
  add_convolution(rows, "f32 nchw groups",
                  {.x = {2, 16, 10, 10}, .w = {16, 4, 3, 3}, .type = f32, .channels_inside = false});
  add_convolution(rows, "depthwise", {.x = {2, 16, 10, 10}, .w = {16, 1, 3, 3}});
  add_convolution(rows, "nchw depthwise",
                  {.x = {2, 16, 10, 10}, .w = {16, 1, 3, 3}, .channels_inside = false});
  add_convolution(rows, "groups do not divide", {.x = {2, 10, 10, 10}, .w = {16, 4, 3, 3}});
  add_convolution(rows, "1d as 2d",
                  {.x = {2, 8, 1, 30},
                   .w = {16, 8, 1, 3},
                   .sizes = {.padding = {0, 1}, .stride = {1, 1}, .dilation = {1, 1}}});
  add_convolution(
      rows, "1d",
      {.x = {2, 8, 30}, .w = {16, 8, 3}, .sizes = {.padding = {1}, .stride = {1}, .dilation = {1}}});
  add_convolution(rows, "f32 nchw 1d",
                  {.x = {2, 8, 30},
                   .w = {16, 8, 3},
                   .sizes = {.padding = {1}, .stride = {1}, .dilation = {1}},
                   .type = f32,
                   .channels_inside = false});
  add_convolution(rows, "3d",
                  {.x = {2, 8, 6, 6, 6},
                   .w = {16, 8, 3, 3, 3},
                   .sizes = {.padding = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}}});
  add_convolution(rows, "f32 nchw 3d",
                  {.x = {2, 8, 6, 6, 6},
                   .w = {16, 8, 3, 3, 3},
                   .sizes = {.padding = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}},
                   .type = f32,
                   .channels_inside = false});
}

void add_epilogues(std::vector<TableRow>& rows) {
  add_convolution(
      rows, "f32 compute f16",
      {.sizes = {.padding = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .compute = f16}, .type = f32},
      false);
  add_convolution(
      rows, "f16 compute f16",
      {.sizes = {.padding = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .compute = f16}, .type = f16},
      false);
  add_convolution(
      rows, "flipped",
      {.sizes = {.padding = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .mode = CUDNN_CONVOLUTION}});
  add_convolution(rows, "f32 from bf16", {.out = f32}, false);
  rows.push_back(
      {"filter gradient f32 from bf16", [](Graph& g) { convolution_filter_gradient(g, {.out = f32}); }});
  rows.push_back({"filter gradient f32 from bf16 nchw",
                  [](Graph& g) { convolution_filter_gradient(g, {.channels_inside = false, .out = f32}); }});
  add_convolution(rows, "bias", {.bias = true}, false);
  add_convolution(rows, "bias relu", {.bias = true, .relu = true}, false);
  add_convolution(rows, "bias add relu", {.bias = true, .relu = true, .add = true}, false);
  add_convolution(rows, "relu", {.relu = true}, false);
  add_convolution(rows, "add relu", {.relu = true, .add = true}, false);
  add_convolution(rows, "f32 bias relu", {.type = f32, .bias = true, .relu = true}, false);
  add_convolution(rows, "f32 nchw bias relu",
                  {.type = f32, .channels_inside = false, .bias = true, .relu = true}, false);
  add_convolution(rows, "nchw bias relu", {.channels_inside = false, .bias = true, .relu = true}, false);
  add_convolution(rows, "f32 nchw bias add relu",
                  {.type = f32, .channels_inside = false, .bias = true, .relu = true, .add = true}, false);
  add_convolution(rows, "3 channels bias relu",
                  {.x = {2, 3, 10, 10}, .w = {5, 3, 3, 3}, .bias = true, .relu = true}, false);
  add_convolution(rows, "groups bias relu",
                  {.x = {2, 16, 10, 10}, .w = {16, 8, 3, 3}, .bias = true, .relu = true}, false);
  for (const auto type : {f32, bf16}) {
    const std::string name = type == f32 ? "f32 nchw " : "bf16 nchw ";
    const auto add = [&](const char* what, bool bias, bool sum, bool relu) {
      add_convolution(rows, name + what,
                      {.type = type, .channels_inside = false, .bias = bias, .relu = relu, .add = sum},
                      false);
    };
    add("bias alone", true, false, false);
    add("relu alone", false, false, true);
    add("sum and relu", false, true, true);
  }
  Convolution wide{.type = f64, .bias = true};
  wide.sizes.compute = f64;
  add_convolution(rows, "f64 bias", wide, false);
  wide = {.type = f64};
  add_convolution(rows, "f64 computed in f32", wide);
}

}  // namespace

std::vector<TableRow> convolution_rows() {
  std::vector<TableRow> rows;
  add_types(rows);
  add_sizes(rows);
  add_epilogues(rows);
  return rows;
}

}  // namespace cudnn_graphs
