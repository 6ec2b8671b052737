#include "autograd/functions/images/batch_norm.h"
#include "autograd/functions/images/pooling.h"
#include "tests/ops/compare.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

/// A list argument of the case, `otherwise` where it has none.
Shape list(const CaseInputs& g, const char* name, const Shape& otherwise) {
  return g.has(name) ? g.shape(name) : otherwise;
}
bool flag(const CaseInputs& g, const char* name, bool otherwise) {
  return g.has(name) ? g.flag(name) : otherwise;
}

/// Running statistics (C) of the case, in the dtype that x's statistics have; undefined where it has none.
Tensor statistic(const CaseInputs& g, const char* name, std::vector<double> values) {
  if (!g.has("running_mean")) return {};
  for (size_t c = 0; c < values.size(); ++c)
    values[c] =
        std::string(name) == "mean" ? 0.25 * static_cast<double>(c) : 0.5 + 0.125 * static_cast<double>(c);
  const Tensor all = Tensor::from(values);
  const Tensor typed = as_dtype(all, g[0].dtype() == f64 ? f64 : f32);
  return typed.to(g[0].device());
}

template <class Norm>
Results normalized(const CaseInputs& g, Norm norm) {
  const std::vector<double> channels(static_cast<size_t>(g[0].size(1)));
  return norm(g[0], statistic(g, "mean", channels), statistic(g, "variance", channels), g.optional(1),
              g.optional(2), g.flag("training"), 0.1, g.real("eps"));
}

template <class Pool>
Results max_pooled(const CaseInputs& g, Pool pool) {
  return pool(g[0], g.shape("kernel_size"), list(g, "stride", {}), list(g, "padding", 0),
              list(g, "dilation", 1), flag(g, "ceil_mode", false));
}
template <class Pool>
Results max_pooled_with_indices(const CaseInputs& g, Pool pool) {
  auto [values, indices] = pool(g[0], g.shape("kernel_size"), list(g, "stride", {}), list(g, "padding", 0),
                                list(g, "dilation", 1), flag(g, "ceil_mode", false));
  return std::vector<Variable>{values, Variable(indices)};
}
template <class Pool>
Results averaged(const CaseInputs& g, Pool pool) {
  return pool(g[0], g.shape("kernel_size"), list(g, "stride", {}), list(g, "padding", 0),
              flag(g, "ceil_mode", false), flag(g, "count_include_pad", true),
              g.has("divisor_override") ? g.integer("divisor_override") : 0);
}
template <class Pool>
Results indexed(const CaseInputs& g, Pool pool) {
  auto [values, indices] = pool(g[0], g.shape("output_size"));
  return std::vector<Variable>{values, Variable(indices)};
}
template <class Pool>
Results powered(const CaseInputs& g, Pool pool) {
  return pool(g[0], g.real("norm_type"), g.shape("kernel_size"), list(g, "stride", {}),
              flag(g, "ceil_mode", false));
}
template <class Pool>
Results unpooled(const CaseInputs& g, Pool pool) {
  return pool(g[0], g.tensor(1), g.shape("kernel_size"), list(g, "stride", {}), 0,
              list(g, "output_size", {}));
}

OpRow row(const char* name, std::function<Results(const CaseInputs&)> call, Tolerance tolerance = {}) {
  return {.name = name, .family = "images", .call = std::move(call), .tolerance = tolerance};
}

}  // namespace

std::vector<OpRow> images_rows() {
  const Tolerance powers{
      .bf16 = 0x1p-5, .f16 = 0x1p-8, .reason = "powers and averages are rounded one by one"};
  const Tolerance norms{
      .bf16 = 0x1p-5, .f16 = 0x1p-8, .reason = "the gradient sums rounded products of a channel"};
  const auto averaged_1d = [](const CaseInputs& g) {
    return averaged(g, [](const auto& x, const auto& k, const auto& s, const auto& p, bool ceil, bool count,
                          int64_t) { return avg_pool1d(x, k, s, p, ceil, count); });
  };
  return {
      row(
          "batch_norm", [](const CaseInputs& g) { return normalized(g, batch_norm); }, norms),
      row(
          "batch_norm_relu", [](const CaseInputs& g) { return normalized(g, batch_norm_relu); }, norms),
      {.name = "batch_norm_add_relu", .tested_in = "tests/nn/layers/channels_last_test.cpp"},
      {.name = "channels_last", .tested_in = "tests/nn/layers/channels_last_test.cpp"},
      {.name = "sync_batch_norm", .tested_in = "tests/dist/batch_norm_test.cpp"},
      row("max_pool1d", [](const CaseInputs& g) { return max_pooled(g, max_pool1d); }),
      row("max_pool2d", [](const CaseInputs& g) { return max_pooled(g, max_pool2d); }),
      row("max_pool3d", [](const CaseInputs& g) { return max_pooled(g, max_pool3d); }),
      row("max_pool1d_with_indices",
          [](const CaseInputs& g) { return max_pooled_with_indices(g, max_pool1d_with_indices); }),
      row("max_pool2d_with_indices",
          [](const CaseInputs& g) { return max_pooled_with_indices(g, max_pool2d_with_indices); }),
      row("max_pool3d_with_indices",
          [](const CaseInputs& g) { return max_pooled_with_indices(g, max_pool3d_with_indices); }),
      row("avg_pool1d", averaged_1d),
      row("avg_pool2d", [](const CaseInputs& g) { return averaged(g, avg_pool2d); }),
      row("avg_pool3d", [](const CaseInputs& g) { return averaged(g, avg_pool3d); }),
      row("adaptive_max_pool1d",
          [](const CaseInputs& g) { return adaptive_max_pool1d(g[0], g.shape("output_size")); }),
      row("adaptive_max_pool2d",
          [](const CaseInputs& g) { return adaptive_max_pool2d(g[0], g.shape("output_size")); }),
      row("adaptive_max_pool3d",
          [](const CaseInputs& g) { return adaptive_max_pool3d(g[0], g.shape("output_size")); }),
      row("adaptive_max_pool1d_with_indices",
          [](const CaseInputs& g) { return indexed(g, adaptive_max_pool1d_with_indices); }),
      row("adaptive_max_pool2d_with_indices",
          [](const CaseInputs& g) { return indexed(g, adaptive_max_pool2d_with_indices); }),
      row("adaptive_max_pool3d_with_indices",
          [](const CaseInputs& g) { return indexed(g, adaptive_max_pool3d_with_indices); }),
      row("adaptive_avg_pool1d",
          [](const CaseInputs& g) { return adaptive_avg_pool1d(g[0], g.shape("output_size")); }),
      row("adaptive_avg_pool2d",
          [](const CaseInputs& g) { return adaptive_avg_pool2d(g[0], g.shape("output_size")); }),
      row("adaptive_avg_pool3d",
          [](const CaseInputs& g) { return adaptive_avg_pool3d(g[0], g.shape("output_size")); }),
      row("global_avg_pool", [](const CaseInputs& g) { return global_avg_pool(g[0]); }),
      row("global_max_pool", [](const CaseInputs& g) { return global_max_pool(g[0]); }),
      row(
          "lp_pool1d", [](const CaseInputs& g) { return powered(g, lp_pool1d); }, powers),
      row(
          "lp_pool2d", [](const CaseInputs& g) { return powered(g, lp_pool2d); }, powers),
      row(
          "lp_pool3d", [](const CaseInputs& g) { return powered(g, lp_pool3d); }, powers),
      row("max_unpool1d", [](const CaseInputs& g) { return unpooled(g, max_unpool1d); }),
      row("max_unpool2d", [](const CaseInputs& g) { return unpooled(g, max_unpool2d); }),
      row("max_unpool3d", [](const CaseInputs& g) { return unpooled(g, max_unpool3d); }),
      // Raw operations, which the functions above call.
      {.name = "batch_norm_apply", .tested_in = "tests/tensor/ops/images/batch_norm_test.cpp"},
      {.name = "avg_pool", .tested_in = "tests/tensor/ops/images/pooling_test.cpp"},
      {.name = "adaptive_avg_pool", .tested_in = "tests/tensor/ops/images/pooling_test.cpp"},
  };
}

}  // namespace tessera::test
