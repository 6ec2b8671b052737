#include "autograd/functions/images/channel_norms.h"
#include "autograd/functions/images/interpolation.h"
#include "autograd/functions/images/rearranging.h"
#include "tests/ops/compare.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

InterpolationMode interpolation_mode(const std::string& name) {
  using enum InterpolationMode;
  for (const InterpolationMode mode : {nearest, nearest_exact, linear, bilinear, trilinear, bicubic, area})
    if (name == name_of(mode)) return mode;
  throw ValueError("no mode " + name);
}

Results interpolated(const CaseInputs& g) {
  InterpolateOptions options{.mode = interpolation_mode(g.text("mode"))};
  if (g.has("size")) options.size = g.shape("size");
  if (g.has("scale_factor")) options.scale_factor = {g.real("scale_factor")};
  options.align_corners = g.has("align_corners") && g.flag("align_corners");
  options.recompute_scale_factor = g.has("recompute_scale_factor") && g.flag("recompute_scale_factor");
  return interpolate(g[0], options);
}

Results sampled(const CaseInputs& g) {
  const std::string padding = g.text("padding_mode");
  return grid_sample(g[0], g[1],
                     g.text("mode") == "nearest" ? GridSampleMode::nearest : GridSampleMode::bilinear,
                     padding == "zeros"    ? GridSamplePadding::zeros
                     : padding == "border" ? GridSamplePadding::border
                                           : GridSamplePadding::reflection,
                     g.flag("align_corners"));
}

Results padded(const CaseInputs& g) {
  const std::string mode = g.text("mode");
  return pad(g[0], g.shape("padding"),
             mode == "constant"    ? PaddingMode::constant
             : mode == "reflect"   ? PaddingMode::reflect
             : mode == "replicate" ? PaddingMode::replicate
                                   : PaddingMode::circular,
             0.5);
}

/// The running statistics of a case: 0, 1/4, 1/2, ... or 1/2, 5/8, ...; undefined where it has none.
Tensor running(const CaseInputs& g, double first, double step) {
  if (!g.has("running")) return {};
  std::vector<double> values;
  for (int64_t c = 0; c < g[0].size(1); ++c) values.push_back(first + step * static_cast<double>(c));
  const Tensor typed = as_dtype(Tensor::from(values), g[0].dtype() == f64 ? f64 : f32);
  return typed.to(g[0].device());
}

OpRow row(const char* name, std::function<Results(const CaseInputs&)> call, Tolerance tolerance = {}) {
  return {.name = name, .family = "resampling", .call = std::move(call), .tolerance = tolerance};
}

}  // namespace

std::vector<OpRow> resampling_rows() {
  const Tolerance composed{
      .bf16 = 0x1p-4, .f16 = 0x1p-7, .reason = "made of functions that round one by one"};
  OpRow sample = row("grid_sample", sampled, composed);
  sample.narrow = {f32};  // a coordinate of a half type is rounded to another place
  return {
      row("interpolate", interpolated),
      sample,
      row("affine_grid",
          [](const CaseInputs& g) { return affine_grid(g[0], g.shape("size"), g.flag("align_corners")); }),
      row("pixel_shuffle",
          [](const CaseInputs& g) { return pixel_shuffle(g[0], g.integer("upscale_factor")); }),
      row("pixel_unshuffle",
          [](const CaseInputs& g) { return pixel_unshuffle(g[0], g.integer("downscale_factor")); }),
      row("channel_shuffle", [](const CaseInputs& g) { return channel_shuffle(g[0], g.integer("groups")); }),
      row("pad_mode", padded),
      row(
          "group_norm",
          [](const CaseInputs& g) {
            return group_norm(g[0], g.integer("num_groups"), g.optional(1), g.optional(2), g.real("eps"));
          },
          composed),
      row(
          "instance_norm",
          [](const CaseInputs& g) {
            return instance_norm(g[0], running(g, 0, 0.25), running(g, 0.5, 0.125), g.optional(1),
                                 g.optional(2), !g.has("running"), 0.1, g.real("eps"));
          },
          composed),
      row(
          "local_response_norm",
          [](const CaseInputs& g) {
            return local_response_norm(g[0], g.integer("size"), g.real("alpha"), g.real("beta"), g.real("k"));
          },
          composed),
      {.name = "dropout1d", .tested_in = "tests/nn/layers/images/channel_dropout_test.cpp"},
      {.name = "dropout2d", .tested_in = "tests/nn/layers/images/channel_dropout_test.cpp"},
      {.name = "dropout3d", .tested_in = "tests/nn/layers/images/channel_dropout_test.cpp"},
      {.name = "alpha_dropout", .tested_in = "tests/nn/layers/images/channel_dropout_test.cpp"},
      {.name = "feature_alpha_dropout", .tested_in = "tests/nn/layers/images/channel_dropout_test.cpp"},
  };
}

}  // namespace tessera::test
