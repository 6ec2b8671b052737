// Normalizations, products, pointwise operations and reductions, and graphs that are none.
#include "tests/cuda_sim/libraries/cudnn_graphs/layers.h"
#include "tests/cuda_sim/libraries/cudnn_probe/table.h"
namespace cudnn_graphs {
namespace {

constexpr auto f32 = CUDNN_DATA_FLOAT, f16 = CUDNN_DATA_HALF, bf16 = CUDNN_DATA_BFLOAT16,
               f64 = CUDNN_DATA_DOUBLE;

void add_norms(std::vector<TableRow>& rows) {
  const auto add = [&](const std::string& name, const Norm& n) {
    rows.push_back({"norm training " + name, [=](Graph& g) { norm_training(g, n); }});
    rows.push_back({"norm inference " + name, [=](Graph& g) { norm_inference(g, n); }});
    rows.push_back({"norm gradient " + name, [=](Graph& g) { norm_gradient(g, n); }});
  };
  for (const auto& [name, type] : {std::pair{"bf16", bf16}, {"f16", f16}, {"f32", f32}, {"f64", f64}})
    for (const bool inside : {true, false})
      add(std::string(name) + (inside ? " nhwc" : " nchw"), {.type = type, .channels_inside = inside});
  add("without running statistics", {.running = false});
  add("64 channels", {.x = {16, 64, 8, 8}});
  add("f32 64 channels", {.x = {16, 64, 8, 8}, .type = f32});
  add("3d", {.x = {2, 8, 4, 6, 6}});
  add("bf16 parameters", {.parameter_type = bf16});
  for (const int64_t channels : {4, 12}) {
    add("f32 " + std::to_string(channels) + " channels", {.x = {4, channels, 6, 6}, .type = f32});
    add("bf16 " + std::to_string(channels) + " channels", {.x = {4, channels, 6, 6}});
  }
  add("layer", {.mode = CUDNN_LAYER_NORM, .x = {64, 128, 1, 1}});
  add("layer f32", {.mode = CUDNN_LAYER_NORM, .x = {64, 128, 1, 1}, .type = f32});
  add("layer bf16 parameters", {.mode = CUDNN_LAYER_NORM, .x = {64, 128, 1, 1}, .parameter_type = bf16});
  add("layer 100", {.mode = CUDNN_LAYER_NORM, .x = {64, 100, 1, 1}});
}

void add_matmul(std::vector<TableRow>& rows, const std::string& name, const Sizes& a, const Sizes& b,
                cudnnDataType_t type, int64_t alignment = 16, cudnnDataType_t compute = f32) {
  rows.push_back({"matmul " + name, [=](Graph& g) {
                    const Id left = g.tensor(a, packed(a), {.type = type, .alignment = alignment});
                    const Id right = g.tensor(b, packed(b), {.type = type, .alignment = alignment});
                    Sizes c = a;
                    c.back() = b.back();
                    const Id out = g.tensor(c, packed(c), {.type = type, .alignment = alignment});
                    g.matmul(left, right, out, compute);
                  }});
}

void add_matmuls(std::vector<TableRow>& rows) {
  add_matmul(rows, "bf16", {2, 32, 64}, {2, 64, 48}, bf16);
  add_matmul(rows, "f16", {2, 32, 64}, {2, 64, 48}, f16);
  add_matmul(rows, "f32", {2, 32, 64}, {2, 64, 48}, f32);
  add_matmul(rows, "f64", {2, 32, 64}, {2, 64, 48}, f64, 16, f64);
  add_matmul(rows, "odd", {2, 31, 63}, {2, 63, 47}, bf16, 2);
  add_matmul(rows, "odd f32", {2, 31, 63}, {2, 63, 47}, f32, 4);
  add_matmul(rows, "broadcast", {2, 32, 64}, {1, 64, 48}, bf16);
  add_matmul(rows, "does not fit", {2, 32, 64}, {2, 32, 48}, bf16);
  add_matmul(rows, "four dimensions", {3, 2, 32, 64}, {3, 2, 64, 48}, bf16);
  add_matmul(rows, "f16 in f16", {2, 32, 64}, {2, 64, 48}, f16, 16, f16);
  add_matmul(rows, "f32 in f64", {2, 32, 64}, {2, 64, 48}, f32, 16, f64);
  add_matmul(rows, "two dimensions", {32, 64}, {64, 48}, bf16);
}

void add_fusions(std::vector<TableRow>& rows) {
  const Sizes shape{2, 8, 6, 6};
  const auto pointwise = [&](const std::string& name, cudnnPointwiseMode_t mode, const Sizes& b,
                             cudnnDataType_t type, cudnnDataType_t compute) {
    for (const bool inside : {true, false})
      rows.push_back({"pointwise " + name + (inside ? " nhwc" : ""), [=](Graph& g) {
                        const auto place = [&](const Sizes& dims) {
                          return g.tensor(dims,
                                          inside && dims.size() > 3 ? channels_last(dims) : packed(dims),
                                          {.type = type});
                        };
                        const Id x = place(shape), other = b.empty() ? 0 : place(b);
                        g.pointwise(mode, x, other, place(shape), {.compute = compute});
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
  for (const auto& [name, y] : {std::pair{"all", Sizes{1, 1, 1, 1}},
                                {"columns", Sizes{1, 8, 1, 1}},
                                {"rows", Sizes{2, 1, 6, 6}},
                                {"images", Sizes{2, 8, 1, 1}},
                                {"does not fit", Sizes{2, 5, 6, 1}}})
    for (const auto type : {f32, bf16})
      for (const bool inside : {true, false})
        rows.push_back(
            {std::string("reduction ") + name + (type == f32 ? " f32" : " bf16") + (inside ? " nhwc" : ""),
             [=](Graph& g) {
               const auto place = [&](const Sizes& dims, cudnnDataType_t of) {
                 return g.tensor(dims, inside ? channels_last(dims) : packed(dims), {.type = of});
               };
               g.reduce(CUDNN_REDUCE_TENSOR_ADD, place(shape, type), place(y, f32));
             }});
}

void add_graphs(std::vector<TableRow>& rows) {
  const Sizes shape{2, 8, 6, 6};
  rows.push_back({"pointwise backward relu", [=](Graph& g) {
                    const auto place = [&] { return g.tensor(shape, channels_last(shape), {.type = bf16}); };
                    const Id dy = place(), x = place();
                    g.pointwise_backward(CUDNN_POINTWISE_RELU_BWD, dy, x, place());
                  }});
  rows.push_back({"a tensor nothing makes", [=](Graph& g) {
                    const Id x = g.tensor(shape, channels_last(shape), {.is_virtual = true});
                    g.pointwise(CUDNN_POINTWISE_EXP, x, 0, g.tensor(shape, channels_last(shape)));
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

std::vector<TableRow> other_rows() {
  std::vector<TableRow> rows;
  add_norms(rows);
  add_matmuls(rows);
  add_fusions(rows);
  add_graphs(rows);
  return rows;
}

}  // namespace cudnn_graphs
