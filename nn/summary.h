#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"

namespace tessera::nn {

/// One line of a summary: a module, what it returned, and what its call cost.
struct SummaryRow {
  std::string name;  ///< full name; "(model)" for the root
  std::string kind;
  std::string options = "";
  int depth = 0;
  std::vector<Shape> outputs = {};
  int64_t parameters = 0;        ///< of this module and everything below, each once
  int64_t flops = 0;             ///< of matrix products and attention, forward
  int64_t activation_bytes = 0;  ///< that its call saved for backward
};

struct Summary {
  std::vector<SummaryRow> rows;  ///< in order of declaration, parents first
  int64_t parameters = 0;
  int64_t trainable = 0;
  int64_t parameter_bytes = 0;
  int64_t flops = 0;
  int64_t activation_bytes = 0;
};

/// Runs `call` once on meta, whatever device the module is on, and reports what every module below `module`
/// did. Allocates no memory for values.
Summary summarize(Module& module, const std::function<void()>& call);

/// The table as text: layers, shapes, parameters, FLOPs and activation bytes, and the totals.
std::string to_string(const Summary& summary);

/// `summary(model, {12, 64})`, for an input of that shape: ids for a module that takes a Tensor, f32 values
/// for one that takes a Variable.
template <class M>
Summary summary(M& module, const Shape& input_shape) {
  return summarize(module, [&] {
    if constexpr (requires(const Variable& x) { module.forward(x); })
      module(Variable(Tensor::empty(input_shape, f32, meta())));
    else
      module(Tensor::empty(input_shape, i64, meta()));
  });
}

}  // namespace tessera::nn
