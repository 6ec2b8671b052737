#pragma once

#include <array>

#include "nn/layers/batch_norm.h"
#include "nn/layers/containers.h"
#include "nn/layers/convolution.h"
#include "nn/layers/linear.h"
#include "nn/layers/pooling.h"

/// Residual networks (He et al. 2016, https://arxiv.org/abs/1512.03385). Legend: N images, C channels, H
/// height, W width.
namespace tessera::models {

/// The first layers of a ResNet: one 3x3 convolution, for images of 32 x 32 such as CIFAR's; or
/// torchvision's 7x7 convolution of stride 2 and a max pooling, for images of 224 x 224.
enum class ResNetStem : uint8_t { small_images, torchvision };

/// The size of a ResNet of basic blocks. The defaults are ResNet-18 for CIFAR-10.
struct ResNetOptions {
  int64_t classes = 10;                        ///< features of the result
  int64_t width = 64;                          ///< C of the first stage; each further one has twice as many
  std::array<int64_t, 4> blocks{2, 2, 2, 2};   ///< basic blocks of the four stages; 3, 4, 6, 3: ResNet-34
  int64_t image_channels = 3;                  ///< C of an image
  ResNetStem stem = ResNetStem::small_images;  ///< the first layers
  bool zero_init_residual = false;             ///< the weight of each block's last norm begins at 0
};

/// Options of a BasicBlock.
struct BasicBlockOptions {
  int64_t in_channels = 0;          ///< C of x
  int64_t out_channels = 0;         ///< C of the result
  int64_t stride = 1;               ///< of the first convolution, and of the shortcut
  bool zero_init_residual = false;  ///< the second norm's weight begins at 0: the block is relu(shortcut)
};

/// relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)), with 3x3 convolutions. The shortcut is x, or, where
/// extents or channels change, a norm of a 1x1 convolution. Names of parameters are torchvision's.
struct BasicBlock : nn::Layer<BasicBlock, BasicBlockOptions> {
  /// The two convolutions and their norms.
  /// @{
  nn::Conv2d& conv1;
  nn::BatchNorm2d& bn1;
  nn::Conv2d& conv2;
  nn::BatchNorm2d& bn2;
  /// @}
  nn::Sequential* downsample = nullptr;  ///< "0" a convolution, "1" a norm; null where the shortcut is x

  /// Throws ConfigError for channels below 1.
  explicit BasicBlock(Options options);
  std::string describe_options() const override;
  /// x (N, C, H, W) to (N, out_channels, H / stride, W / stride), rounded up.
  Variable forward(const Variable& x) const;
};

/// Stem, four stages of basic blocks, the mean over all positions, and a linear layer: images (N, C, H, W)
/// to logits (N, classes). Activations are in channels-last layout, whatever that of the images: the
/// convolutions are fastest there (tensor/cpu/convolution). State dicts are those of torchvision's
/// `resnet18`.
struct ResNet : nn::Layer<ResNet, ResNetOptions> {
  nn::Conv2d& conv1;                        ///< of the stem
  nn::BatchNorm2d& bn1;                     ///< of the stem, with a ReLU
  nn::MaxPool2d* maxpool = nullptr;         ///< of torchvision's stem; null for small images
  std::array<nn::Sequential*, 4> layers{};  ///< "layer1" to "layer4"
  nn::Linear& fc;                           ///< the classifier

  /// Throws ConfigError, naming the field, for sizes below 1.
  explicit ResNet(Options options);
  std::string describe_options() const override;
  /// The logits. Throws ShapeError for other than 4 dimensions, or other channels.
  Variable forward(const Variable& images) const;
  /// Stem, blocks and classifier.
  std::vector<nn::LayerSpec> to_layers() const;
  /// The same with the cross entropy as loss; targets are labels (N).
  nn::LayeredModel to_layered_model() const;

 private:
  Variable run_stem(const Variable& images) const;
  Variable classify(const Variable& x) const;
};

/// ResNet-18, of `classes`: 11,173,962 parameters for 10 classes; with torchvision's stem 11,181,642.
ResNetOptions resnet18(int64_t classes = 10, ResNetStem stem = ResNetStem::small_images);
/// ResNet-34, of `classes`.
ResNetOptions resnet34(int64_t classes = 10, ResNetStem stem = ResNetStem::small_images);
/// Parameters of the model, by the formula.
int64_t parameter_count(const ResNetOptions& options);

}  // namespace tessera::models
