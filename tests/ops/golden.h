#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace Json {
class Value;
}

namespace tessera::test {

/// The arguments of a golden case that are not tensors, by name.
class Arguments {
 public:
  /// From a JSON object. Throws ValueError for other text.
  explicit Arguments(const std::string& json = "{}");

  /// Whether the argument is there and not null.
  bool has(const std::string& name) const;
  // Each throws ValueError naming the argument when it is missing or of another type.
  int64_t integer(const std::string& name) const;
  bool flag(const std::string& name) const;
  /// A number; the text "inf" stands for infinity, which JSON does not have.
  double real(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::vector<int64_t> integers(const std::string& name) const;
  std::vector<double> reals(const std::string& name) const;
  /// The same list as a Shape: extents, or a list of axes.
  Shape shape(const std::string& name) const;

 private:
  const Json::Value& value(const std::string& name) const;

  std::shared_ptr<const Json::Value> object_;
};

/// One case of an op: its inputs, PyTorch's outputs and the gradients. See make_goldens.py.
struct OpCase {
  std::string name = "";
  Arguments arguments = Arguments();
  std::vector<Tensor> inputs = {};
  /// Empty where there is no reference: only the checks that need none are then made.
  std::vector<Tensor> outputs = {};
  /// The gradient of each output; undefined for outputs without one. Empty: not differentiated.
  std::vector<Tensor> grad_outputs = {};
  /// The gradient of each input; undefined for inputs without one.
  std::vector<Tensor> gradients = {};
  /// For a case without gradients: derivatives by all floating inputs are compared with finite differences.
  bool differentiable = false;
};

/// The cases of `op` in tests/ops/goldens/<family>.safetensors, by name. Throws ValueError when there are
/// none.
std::vector<OpCase> golden_cases(const std::string& family, const std::string& op);

/// The names of the ops in a family's file.
std::vector<std::string> golden_ops(const std::string& family);

}  // namespace tessera::test
