#include "models/resnet.h"

#include <cmath>

#include "autograd/functions/images/rearranging.h"
#include "autograd/functions/layers/loss.h"
#include "autograd/functions/reduction.h"

namespace tessera::models {
namespace {

const BasicBlockOptions& checked(const BasicBlockOptions& o) {
  require<ConfigError>(o.in_channels >= 1 && o.out_channels >= 1 && o.stride >= 1,
                       "BasicBlock: expected channels and a stride of at least 1, got ", o.in_channels,
                       " -> ", o.out_channels, ", stride ", o.stride);
  return o;
}

const ResNetOptions& checked(const ResNetOptions& o) {
  const auto at_least_one = [](int64_t value, const char* name) {
    require<ConfigError>(value >= 1, "ResNet: expected ", name, " to be at least 1, got ", value);
  };
  at_least_one(o.classes, "classes");
  at_least_one(o.width, "width");
  at_least_one(o.image_channels, "image_channels");
  for (const int64_t count : o.blocks) at_least_one(count, "blocks");
  return o;
}

/// A convolution without bias, with the initial values of He et al. 2015 for its results.
nn::ConvOptions convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return {.in_channels = in,
          .out_channels = out,
          .kernel_size = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false,
          .weight_init = init::normal(std::sqrt(2.0 / static_cast<double>(out * kernel * kernel)))};
}

nn::ConvOptions stem_convolution(const ResNetOptions& o) {
  if (o.stem == ResNetStem::small_images) return convolution(o.image_channels, o.width, 3, 1);
  return convolution(o.image_channels, o.width, 7, 2);
}

}  // namespace

BasicBlock::BasicBlock(Options options)
    : Layer(checked(options)),
      conv1(add<nn::Conv2d>("conv1", convolution(o.in_channels, o.out_channels, 3, o.stride))),
      bn1(add<nn::BatchNorm2d>("bn1", nn::BatchNormOptions{.num_features = o.out_channels})),
      conv2(add<nn::Conv2d>("conv2", convolution(o.out_channels, o.out_channels, 3, 1))),
      bn2(add<nn::BatchNorm2d>(
          "bn2", nn::BatchNormOptions{.num_features = o.out_channels,
                                      .weight_init = o.zero_init_residual ? init::zeros() : init::ones()})) {
  if (o.stride == 1 && o.in_channels == o.out_channels) return;
  downsample = &add<nn::Sequential>("downsample");
  downsample->push<nn::Conv2d>(convolution(o.in_channels, o.out_channels, 1, o.stride));
  downsample->push<nn::BatchNorm2d>(nn::BatchNormOptions{.num_features = o.out_channels});
}

std::string BasicBlock::describe_options() const {
  return text(o.in_channels, " -> ", o.out_channels, ", stride ", o.stride);
}

Variable BasicBlock::forward(const Variable& x) const {
  const Variable y = conv2(bn1.norm_relu(conv1(x)));
  return bn2.norm_add_relu(y, downsample ? (*downsample)(x) : x);
}

ResNet::ResNet(Options options)
    : Layer(checked(options)),
      conv1(add<nn::Conv2d>("conv1", stem_convolution(o))),
      bn1(add<nn::BatchNorm2d>("bn1", nn::BatchNormOptions{.num_features = o.width})),
      maxpool(o.stem == ResNetStem::torchvision
                  ? &add<nn::MaxPool2d>("maxpool",
                                        nn::MaxPoolOptions{.kernel_size = 3, .stride = {2}, .padding = 1})
                  : nullptr),
      layers([this] {
        std::array<nn::Sequential*, 4> stages{};
        int64_t channels = o.width;
        for (size_t i = 0; i < stages.size(); ++i) {
          const int64_t out = o.width << i;
          stages[i] = &add<nn::Sequential>(text("layer", i + 1));
          for (int64_t block = 0; block < o.blocks[i]; ++block, channels = out)
            stages[i]->push<BasicBlock>({.in_channels = channels,
                                         .out_channels = out,
                                         .stride = i > 0 && block == 0 ? 2 : 1,
                                         .zero_init_residual = o.zero_init_residual});
        }
        return stages;
      }()),
      fc(add<nn::Linear>("fc", {.in = o.width * 8, .out = o.classes})) {}

std::string ResNet::describe_options() const {
  return text(o.blocks[0], " ", o.blocks[1], " ", o.blocks[2], " ", o.blocks[3], " basic blocks from ",
              o.width, " channels, ", o.classes, " classes",
              o.stem == ResNetStem::torchvision ? ", torchvision's stem" : "");
}

Variable ResNet::run_stem(const Variable& images) const {
  require<ShapeError>(images.ndim() == 4 && images.size(1) == o.image_channels,
                      "ResNet: expected images (N, ", o.image_channels, ", H, W), got ", images);
  const Variable x = bn1.norm_relu(conv1(channels_last(images)));
  return maxpool ? (*maxpool)(x) : x;
}

Variable ResNet::classify(const Variable& x) const {
  return fc(mean(x, {2, 3}));
}

Variable ResNet::forward(const Variable& images) const {
  Variable x = run_stem(images);
  for (const nn::Sequential* stage : layers) x = (*stage)(x);
  return classify(x);
}

std::vector<nn::LayerSpec> ResNet::to_layers() const {
  std::vector<const nn::Module*> stem{&conv1, &bn1};
  if (maxpool) stem.push_back(maxpool);
  std::vector<nn::LayerSpec> list{
      nn::function_layer("stem", stem, [this](const Variable& images) { return run_stem(images); })};
  for (const nn::Sequential* stage : layers)
    for (nn::LayerSpec& block : stage->to_layers()) list.push_back(std::move(block));
  list.push_back(nn::function_layer("fc", {&fc}, [this](const Variable& x) { return classify(x); }));
  list.back().kind = fc.kind();
  return list;
}

nn::LayeredModel ResNet::to_layered_model() const {
  const auto loss = [](const nn::LayerValues& outputs, const std::vector<Tensor>& targets) {
    return cross_entropy(outputs.at(0), targets.at(0));
  };
  return {.layers = to_layers(), .loss = {.run = loss}};
}

ResNetOptions resnet18(int64_t classes, ResNetStem stem) {
  return {.classes = classes, .stem = stem};
}

ResNetOptions resnet34(int64_t classes, ResNetStem stem) {
  return {.classes = classes, .blocks = {3, 4, 6, 3}, .stem = stem};
}

int64_t parameter_count(const ResNetOptions& o) {
  const int64_t taps = o.stem == ResNetStem::small_images ? 9 : 49;
  int64_t count = taps * o.image_channels * o.width + 2 * o.width, channels = o.width;
  for (size_t i = 0; i < o.blocks.size(); ++i) {
    const int64_t out = o.width << i;
    if (out != channels) count += channels * out + 2 * out;  // the first block's shortcut
    count += o.blocks[i] * (18 * out * out + 4 * out) - 9 * out * (out - channels);
    channels = out;
  }
  return count + channels * o.classes + o.classes;
}

}  // namespace tessera::models
