#include "autograd/functions/layers/convolution.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

/// "same" and "valid" are recorded as text.
ConvPadding padding_of(const CaseInputs& g) {
  try {
    return g.text("padding").c_str();
  } catch (const ValueError&) {
    return g.shape("padding");
  }
}

template <auto function>
Results convolution(const CaseInputs& g) {
  return function(g[0], g[1], g.optional(2), g.shape("stride"), padding_of(g), g.shape("dilation"),
                  g.integer("groups"));
}

template <auto function>
Results with_relu(const CaseInputs& g) {
  return function(g[0], g[1], g.optional(2), g.shape("stride"), g.shape("padding"), g.shape("dilation"),
                  g.integer("groups"));
}

template <auto function>
Results with_sum(const CaseInputs& g) {
  return function(g[0], g[1], g[2], g.optional(3), g.shape("stride"), g.shape("padding"), g.shape("dilation"),
                  g.integer("groups"));
}

template <auto function>
Results transposed(const CaseInputs& g) {
  return function(g[0], g[1], g.optional(2), g.shape("stride"), g.shape("padding"), g.shape("output_padding"),
                  g.integer("groups"), g.shape("dilation"));
}

template <class Run>
OpRow row(const char* name, const Run& run, const char* family = "convolution") {
  return {.name = name,
          .family = family,
          .call = run,
          .tolerance = {.f32 = 4e-6, .reason = "a gradient of x or of the weight sums up to 162 products"}};
}

}  // namespace

std::vector<OpRow> convolution_rows() {
  const char* const fused = "fused_convolution";
  const char* const random_shapes = "tests/tensor/ops/layers/convolution_test.cpp";
  using Conv = Variable (*)(const Variable&, const Variable&, const Variable&, const Shape&,
                            const ConvPadding&, const Shape&, int64_t);
  using Transposed = Variable (*)(const Variable&, const Variable&, const Variable&, const Shape&,
                                  const Shape&, const Shape&, int64_t, const Shape&);
  return {
      row("conv1d", convolution<static_cast<Conv>(&conv1d)>),
      row("conv2d", convolution<static_cast<Conv>(&conv2d)>),
      row("conv3d", convolution<static_cast<Conv>(&conv3d)>),
      row("conv1d_relu", with_relu<&conv1d_relu>, fused),
      row("conv2d_relu", with_relu<&conv2d_relu>, fused),
      row("conv3d_relu", with_relu<&conv3d_relu>, fused),
      row("conv1d_add_relu", with_sum<&conv1d_add_relu>, fused),
      row("conv2d_add_relu", with_sum<&conv2d_add_relu>, fused),
      row("conv3d_add_relu", with_sum<&conv3d_add_relu>, fused),
      row("conv_transpose1d", transposed<static_cast<Transposed>(&conv_transpose1d)>),
      row("conv_transpose2d", transposed<static_cast<Transposed>(&conv_transpose2d)>),
      row("conv_transpose3d", transposed<static_cast<Transposed>(&conv_transpose3d)>),
      row("unfold",
          [](const CaseInputs& g) {
            return unfold(g[0], g.shape("kernel_size"), g.shape("dilation"), g.shape("padding"),
                          g.shape("stride"));
          }),
      row("fold",
          [](const CaseInputs& g) {
            return fold(g[0], g.shape("output_size"), g.shape("kernel_size"), g.shape("dilation"),
                        g.shape("padding"), g.shape("stride"));
          }),
      {.name = "convolution", .tested_in = random_shapes},
      {.name = "unfold_windows", .tested_in = random_shapes},
      {.name = "fold_windows", .tested_in = random_shapes},
  };
}

}  // namespace tessera::test
