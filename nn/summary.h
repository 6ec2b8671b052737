#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"

namespace tessera::nn {

/// One line of a summary: a module, what it returned, and what its call cost.
struct SummaryRow {
  std::string name;                 ///< full name; "(model)" for the root
  std::string kind;                 ///< `Module::kind()`
  std::string options = "";         ///< `Module::describe_options()`
  int depth = 0;                    ///< levels below the root
  std::vector<Shape> outputs = {};  ///< of the Variables that its last call returned
  int64_t parameters = 0;           ///< values in the parameters from here down, each once
  int64_t flops = 0;                ///< of matrix products and attention, forward
  int64_t activation_bytes = 0;     ///< that its calls kept for backward, results included
};

/// The rows of a model, and its totals.
struct Summary {
  std::vector<SummaryRow> rows;  ///< in order of declaration, parents first
  int64_t parameters = 0;        ///< values in all parameters, each once
  int64_t trainable = 0;         ///< those of them that require a gradient
  int64_t parameter_bytes = 0;   ///< of these values as the module holds them; masters are not counted
  int64_t flops = 0;             ///< of the root's call, as in its row
  int64_t activation_bytes = 0;  ///< of the root's call, as in its row
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
