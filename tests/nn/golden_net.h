#pragma once

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "autograd/functions/elementwise/binary.h"
#include "nn/layers/activation.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"

namespace module_goldens {

/// The model of make_module_goldens.py, and what PyTorch's has.
struct Net : tessera::nn::Layer<Net> {
  tessera::nn::Linear& fc1 = add<tessera::nn::Linear>("fc1", {.in = 3, .out = 4});
  tessera::nn::GELU& act = add<tessera::nn::GELU>("act");
  tessera::nn::ModuleList<tessera::nn::Linear>& blocks =
      add<tessera::nn::ModuleList<tessera::nn::Linear>>("blocks");
  tessera::nn::Linear& out = add<tessera::nn::Linear>("out", {.in = 4, .out = 2, .bias = false});
  tessera::Variable& scale = buffer("scale", {2}, tessera::init::ones());
  Net() {
    for (int i = 0; i < 3; ++i) blocks.push({.in = 4, .out = 4});
  }
  tessera::Variable forward(const tessera::Variable& x) const { return out(blocks(act(fc1(x)))) * scale; }
};

/// The line with this key of goldens/modules.txt or parametrizations.txt.
std::string golden(const std::string& key);

/// The script's values for a parameter or input.
inline tessera::Tensor pattern(const tessera::Shape& shape) {
  const tessera::Tensor x = tessera::Tensor::empty(shape, tessera::f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i * 7 % 11 - 5) / 10;
  return x;
}

/// Gives the parameters the script's values.
inline void fill_parameters(const tessera::nn::Module& module) {
  for (auto& [name, parameter] : module.named_parameters())
    parameter.value().copy_from(pattern(parameter.shape()));
}

inline void check_close(const tessera::Tensor& x, const std::string& key) {
  CAPTURE(key);
  std::istringstream numbers(golden(key));
  const tessera::Tensor values = x.contiguous();
  for (int64_t i = 0; i < x.numel(); ++i) {
    float expected = 0;
    REQUIRE(static_cast<bool>(numbers >> expected));
    CHECK(values.data<float>()[i] == doctest::Approx(expected).epsilon(1e-5));
  }
  CHECK((numbers >> std::ws).eof());
}

}  // namespace module_goldens
