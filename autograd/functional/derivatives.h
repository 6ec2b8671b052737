#pragma once

#include <utility>
#include <vector>

#include "autograd/functional/multi_function.h"
#include "autograd/variable.h"

/// Derivatives of functions of Variables, as torch.autograd.functional has them:
///
///     const Variable j = autograd::functional::jacobian([](const Variable& x) { return exp(x); }, x);
///
/// The function runs on Variables of its own that share the values of the inputs, which may be constants, and
/// is recorded also under NoGrad: the `grad()` of leaves stays as it is. Each derivative has two forms: for a
/// function of one Variable with one result, and for several of either, as lists. Everything runs backwards:
/// J v is computed as the gradient of v^T J with respect to v (Townsend, "A new trick for calculating
/// Jacobian vector products", 2017), so the rules of the function's operations must be differentiable.
namespace tessera::autograd::functional {

/// Options of the derivatives below.
struct Options {
  /// The results have a history, through which derivatives of them reach the inputs that require a gradient.
  bool create_graph = false;
  /// A result that does not depend on an input, or with `create_graph` a derivative that does not, is an
  /// AutogradError; else its derivative is zeros.
  bool strict = false;
};

/// The value of a function, and a product with one of its derivatives.
struct Product {
  Variable output;   ///< what the function returned
  Variable product;  ///< the product
};
/// The same of a function of several Variables.
struct Products {
  std::vector<Variable> outputs;   ///< what the function returned
  std::vector<Variable> products;  ///< the products
};

/// v^T J: the gradients of the inputs, given those of the results, `v`, in their shapes. Without `v`: 1, for
/// one result of one element. Throws ValueError for another number of elements of `v` than results,
/// ShapeError and DTypeError where one has another shape or dtype than its result.
Products vjp(const MultiFunction& function, const std::vector<Variable>& inputs,
             const std::vector<Variable>& v = {}, Options options = {});
/// J v: the derivative of the results in the direction `v`, in the shapes of the inputs. Without `v`: 1, for
/// one input of one element. Throws as `vjp`. Costs a backward, and a backward of that.
Products jvp(const MultiFunction& function, const std::vector<Variable>& inputs,
             const std::vector<Variable>& v = {}, Options options = {});
/// The derivative of each result by each input, [result][input]: of the result's shape followed by the
/// input's. Costs a backward for each element of the results.
std::vector<std::vector<Variable>> jacobian(const MultiFunction& function,
                                            const std::vector<Variable>& inputs, Options options = {});
/// The second derivatives of the one result, [input][input]: of the first input's shape followed by the
/// second one's. Throws ShapeError unless the function has one result of one element. Costs two backwards for
/// each element of the inputs.
std::vector<std::vector<Variable>> hessian(const MultiFunction& function, const std::vector<Variable>& inputs,
                                           Options options = {});
/// v^T H and H v, with the Hessian of the one result and `v` in the shapes of the inputs. Throw as `hessian`
/// and `jvp`. The products are equal where the second derivatives are continuous; vhp takes a backward less.
/// @{
Products vhp(const MultiFunction& function, const std::vector<Variable>& inputs,
             const std::vector<Variable>& v = {}, Options options = {});
Products hvp(const MultiFunction& function, const std::vector<Variable>& inputs,
             const std::vector<Variable>& v = {}, Options options = {});
/// @}

namespace detail {

/// The first output and product of a function of one Variable. An undefined `v` is none.
Product one_product(Products (*derivative)(const MultiFunction&, const std::vector<Variable>&,
                                           const std::vector<Variable>&, Options),
                    const MultiFunction& function, const Variable& x, const Variable& v, Options options);

}  // namespace detail

/// The same of a function of one Variable with one result.
/// @{
template <UnaryFunction F>
Product vjp(F function, const Variable& x, const Variable& v = {}, Options options = {}) {
  return detail::one_product(vjp, std::move(function), x, v, options);
}
template <UnaryFunction F>
Product jvp(F function, const Variable& x, const Variable& v = {}, Options options = {}) {
  return detail::one_product(jvp, std::move(function), x, v, options);
}
template <UnaryFunction F>
Variable jacobian(F function, const Variable& x, Options options = {}) {
  return jacobian(MultiFunction(std::move(function)), std::vector<Variable>{x}, options)[0][0];
}
template <UnaryFunction F>
Variable hessian(F function, const Variable& x, Options options = {}) {
  return hessian(MultiFunction(std::move(function)), std::vector<Variable>{x}, options)[0][0];
}
template <UnaryFunction F>
Product vhp(F function, const Variable& x, const Variable& v = {}, Options options = {}) {
  return detail::one_product(vhp, std::move(function), x, v, options);
}
template <UnaryFunction F>
Product hvp(F function, const Variable& x, const Variable& v = {}, Options options = {}) {
  return detail::one_product(hvp, std::move(function), x, v, options);
}
/// @}

}  // namespace tessera::autograd::functional
