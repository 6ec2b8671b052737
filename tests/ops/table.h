#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "tests/ops/golden.h"

/// The op table: a row holds the call of an op, from which all checks are made. See README.md.
namespace tessera::test {

/// The argument of a row's call: the case's inputs, as leaves where they need a gradient, and its arguments.
class CaseInputs : public Arguments {
 public:
  CaseInputs(std::vector<Variable> leaves, const Arguments& arguments)
      : Arguments(arguments), inputs(std::move(leaves)) {}

  const Variable& operator[](size_t i) const {
    required_inputs.insert(i);
    return inputs.at(i);
  }
  /// The value of input i: ids, masks, targets.
  Tensor tensor(size_t i) const {
    const Variable& x = (*this)[i];
    return x.defined() ? x.value() : Tensor();
  }
  /// Input i, or an undefined Variable or Tensor where the case has none.
  Variable optional(size_t i) const { return i < inputs.size() ? inputs[i] : Variable(); }
  Tensor optional_tensor(size_t i) const {
    const Variable x = optional(i);
    return x.defined() ? x.value() : Tensor();
  }

  std::vector<Variable> inputs;
  mutable std::set<size_t> required_inputs;  ///< those that the call has read, except as optional
};

/// One result or several, with implicit conversions from both.
struct Results : std::vector<Variable> {
  Results(Variable result) : std::vector<Variable>{std::move(result)} {}
  Results(Tensor result) : std::vector<Variable>{Variable(std::move(result))} {}
  Results(std::vector<Variable> results) : std::vector<Variable>(std::move(results)) {}
  Results(const std::vector<Tensor>& results) : std::vector<Variable>(results.begin(), results.end()) {}
};

/// The allowed distance of a result from the reference, relative (see `difference`). The defaults: f64, a few
/// hundred rounding steps of 2^-53 in either library; f32, 32 steps of 2^-24; bf16 and f16, 8 steps of 2^-9
/// and 2^-12, since a gradient through several ops is rounded after each.
struct Tolerance {
  double f64 = 1e-13;
  double f32 = 2e-6;
  double bf16 = 0x1p-6;
  double f16 = 0x1p-9;
  /// Why the tolerance is not the default.
  const char* reason = "";
};

/// One op.
struct OpRow {
  /// The name as declared in autograd/functions/ or tensor/ops/.
  std::string name = "";
  /// The file of goldens: "unary" for goldens/unary.safetensors. Empty: only `cases`.
  std::string family = "";
  /// Calls the op on a case.
  std::function<Results(const CaseInputs&)> call = nullptr;
  /// The op's name in the goldens, where it differs.
  std::string golden = "";
  /// Cases besides the goldens (inputs in f64; outputs are optional).
  std::function<std::vector<OpCase>()> cases = nullptr;
  Tolerance tolerance = {};
  /// Floating types besides f64 that the op takes.
  std::vector<DType> narrow = {f32, bf16, f16};
  /// Whether its backward can be differentiated again.
  bool twice_differentiable = true;
  /// Whether finite differences give its derivatives: not at a kink, a NaN, an infinity or values far from 0.
  bool differences = true;
  /// Whether the result's shape depends on values: on meta it throws DeviceError.
  bool shape_from_values = false;
  /// Golden cases that are not checked, each with the reason.
  std::map<std::string, std::string> except = {};
  /// For an op that fits no row (it draws random numbers, writes in place, ...): the file that tests it. Such
  /// a row has no `call`.
  std::string tested_in = "";
};

/// Every row, family by family.
const std::vector<OpRow>& op_table();

/// The cases of a row: goldens, then its own.
std::vector<OpCase> cases_of(const OpRow& row);

}  // namespace tessera::test
