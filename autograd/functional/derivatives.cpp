// Products with the Jacobian and the Hessian, by one backward or by a backward of a backward.

#include "autograd/functional/derivatives.h"

#include "autograd/functional/own_input.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "tensor/ops/creation/creation.h"

namespace tessera {
namespace detail {

void require_inputs(size_t taken, size_t given) {
  require<ValueError>(taken == given, "the function takes ", taken, taken == 1 ? " Variable" : " Variables",
                      ", and ", given, " inputs are given");
}

}  // namespace detail

namespace autograd::functional {
namespace {

using Variables = std::vector<Variable>;

/// A function's run on Variables of its own.
struct Run {
  Variables inputs;
  Variables outputs;
};

Run run_function(const char* where, const MultiFunction& function, const Variables& inputs,
                 const Options& options) {
  require<ValueError>(!inputs.empty(), where, ": expected at least one input");
  Run run;
  for (const Variable& x : inputs) run.inputs.push_back(tessera::detail::own_input(x, options.create_graph));
  run.outputs = function(run.inputs);
  require<ValueError>(!run.outputs.empty(), where, ": the function returned no Variable");
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    require<ValueError>(run.outputs[i].defined(), where, ": result ", i, " of the function is undefined");
    require<AutogradError>(!options.strict || run.outputs[i].requires_grad(), where, ": result ", i,
                           " of the function does not depend on the inputs (strict)");
  }
  return run;
}

/// `v`, checked against the Variables that it belongs to; 1 where it is empty.
Variables checked_v(const char* where, const char* what, const Variables& v, const Variables& like) {
  if (v.empty()) {
    require<ValueError>(like.size() == 1 && like[0].numel() == 1, where, ": v may be left out only for one ",
                        what, " of one element; there are ", like.size(), ", the first of ", like[0]);
    return {ops::ones(like[0].shape(), like[0].dtype(), like[0].device())};
  }
  require<ValueError>(v.size() == like.size(), where, ": expected one Variable in v for each ", what, ", ",
                      like.size(), ", got ", v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    require<ShapeError>(v[i].shape() == like[i].shape(), where, ": v[", i, "] has shape ", v[i].shape(),
                        ", and ", what, " ", i, " has shape ", like[i].shape());
    require<DTypeError>(v[i].dtype() == like[i].dtype(), where, ": v[", i, "] is of ", v[i].dtype(), ", and ",
                        what, " ", i, " of ", like[i].dtype());
  }
  return v;
}

/// The gradients of `roots`, undefined for inputs on which none of them depends. Roots may be constants or
/// undefined.
Variables gradients_of(const Variables& roots, const Variables& inputs, const Variables& v,
                       GradOptions options) {
  Variables differentiable, gradients;
  for (size_t i = 0; i < roots.size(); ++i) {
    if (!roots[i].requires_grad()) continue;
    differentiable.push_back(roots[i]);
    gradients.push_back(v[i]);
  }
  if (differentiable.empty()) return Variables(inputs.size());
  options.allow_unused = true;
  return tessera::grad(differentiable, inputs, gradients, options);
}

/// The derivatives with zeros for undefined ones, which `strict` does not allow. `like`: the shapes.
Variables filled(const char* where, const char* what, Variables derivatives, const Variables& like,
                 const Options& options) {
  for (size_t i = 0; i < derivatives.size(); ++i) {
    const bool depends = derivatives[i].defined();
    require<AutogradError>(!options.strict || depends, where, ": the function does not depend on ", what, " ",
                           i, " (strict)");
    require<AutogradError>(!options.strict || !options.create_graph || derivatives[i].requires_grad(), where,
                           ": the derivative by ", what, " ", i, " does not depend on the inputs (strict)");
    if (!depends) derivatives[i] = Tensor::zeros_like(like[i].value());
  }
  return derivatives;
}

/// Without their histories unless `create_graph`.
Variables finished(Variables list, const Options& options) {
  if (!options.create_graph)
    for (Variable& x : list) x = x.detach();
  return list;
}

/// J v of a recorded function: its v^T J is linear in v, so the gradient of that by v, at any v, is J.
Variables forward_product(const Variables& outputs, const Variables& inputs, const Variables& v,
                          bool create_graph) {
  Variables zeros;
  for (const Variable& output : outputs) zeros.push_back(Variable::leaf(Tensor::zeros_like(output.value())));
  const Variables back = gradients_of(outputs, inputs, zeros, {.create_graph = true});
  return gradients_of(back, zeros, v, {.create_graph = create_graph});
}

/// The one result of one element of a run.
const Variable& scalar_output(const char* where, const Run& run) {
  require<ShapeError>(run.outputs.size() == 1 && run.outputs[0].numel() == 1, where,
                      ": expected a function with one result of one element, got ", run.outputs.size(),
                      run.outputs.size() == 1 ? " result" : " results", ", the first of ", run.outputs[0]);
  return run.outputs[0];
}

/// The gradients of the one result, with their histories; zeros where it does not depend on an input.
Variables scalar_gradients(const char* where, const Run& run) {
  const Variable& output = scalar_output(where, run);
  const Variable one = ops::ones(output.shape(), output.dtype(), output.device());
  return filled(where, "input", gradients_of({output}, run.inputs, {one}, {.create_graph = true}), run.inputs,
                {});
}

/// The gradient with 1 at element `at` and zeros elsewhere.
Variable one_hot(const Variable& output, int64_t at) {
  const Tensor flat = Tensor::zeros({output.numel()}, output.dtype(), output.device());
  flat.narrow(0, at, 1).copy_from(ops::ones({1}, output.dtype(), output.device()));
  return flat.reshape(output.shape());
}

/// The derivatives of one result by each of the inputs.
Variables jacobian_rows(const char* where, const Variable& output, const Variables& inputs,
                        const Options& options) {
  std::vector<Variables> rows(inputs.size());
  for (int64_t at = 0; at < output.numel(); ++at) {
    Variables row = gradients_of({output}, inputs, {one_hot(output, at)},
                                 {.retain_graph = true, .create_graph = options.create_graph});
    row = filled(where, "input", std::move(row), inputs, options);
    for (size_t i = 0; i < inputs.size(); ++i) rows[i].push_back(row[i]);
  }
  Variables blocks;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Shape shape = output.shape();
    for (int d = 0; d < inputs[i].ndim(); ++d) shape.push_back(inputs[i].shape()[d]);
    blocks.push_back(rows[i].empty() ? Variable(Tensor::zeros(shape, inputs[i].dtype(), inputs[i].device()))
                                     : reshape(stack(rows[i], 0), shape));
  }
  return blocks;
}

std::vector<Variables> all_rows(const char* where, const MultiFunction& function, const Variables& inputs,
                                const Options& options) {
  const EnableGrad enable_grad;
  const Run run = run_function(where, function, inputs, options);
  std::vector<Variables> blocks;
  for (const Variable& output : run.outputs)
    blocks.push_back(finished(jacobian_rows(where, output, run.inputs, options), options));
  return blocks;
}

}  // namespace

Products vjp(const MultiFunction& function, const Variables& inputs, const Variables& v, Options options) {
  const EnableGrad enable_grad;
  Run run = run_function("vjp", function, inputs, options);
  const Variables checked = checked_v("vjp", "result", v, run.outputs);
  Variables products = gradients_of(run.outputs, run.inputs, checked, {.create_graph = options.create_graph});
  products = filled("vjp", "input", std::move(products), run.inputs, options);
  return {finished(std::move(run.outputs), options), finished(std::move(products), options)};
}

Products jvp(const MultiFunction& function, const Variables& inputs, const Variables& v, Options options) {
  const EnableGrad enable_grad;
  const Variables checked = checked_v("jvp", "input", v, inputs);
  Run run = run_function("jvp", function, inputs, options);
  Variables products = forward_product(run.outputs, run.inputs, checked, options.create_graph);
  products = filled("jvp", "result", std::move(products), run.outputs, options);
  return {finished(std::move(run.outputs), options), finished(std::move(products), options)};
}

std::vector<Variables> jacobian(const MultiFunction& function, const Variables& inputs, Options options) {
  return all_rows("jacobian", function, inputs, options);
}

std::vector<Variables> hessian(const MultiFunction& function, const Variables& inputs, Options options) {
  const MultiFunction gradients = [&function](const Variables& own) {
    return scalar_gradients("hessian", {own, function(own)});
  };
  return all_rows("hessian", gradients, inputs, options);
}

Products vhp(const MultiFunction& function, const Variables& inputs, const Variables& v, Options options) {
  const EnableGrad enable_grad;
  const Variables checked = checked_v("vhp", "input", v, inputs);
  Run run = run_function("vhp", function, inputs, options);
  Variables products =
      gradients_of(scalar_gradients("vhp", run), run.inputs, checked, {.create_graph = options.create_graph});
  products = filled("vhp", "input", std::move(products), run.inputs, options);
  return {finished(std::move(run.outputs), options), finished(std::move(products), options)};
}

Products hvp(const MultiFunction& function, const Variables& inputs, const Variables& v, Options options) {
  const EnableGrad enable_grad;
  const Variables checked = checked_v("hvp", "input", v, inputs);
  Run run = run_function("hvp", function, inputs, options);
  Variables products =
      forward_product(scalar_gradients("hvp", run), run.inputs, checked, options.create_graph);
  products = filled("hvp", "input", std::move(products), run.inputs, options);
  return {finished(std::move(run.outputs), options), finished(std::move(products), options)};
}

Product detail::one_product(Products (*derivative)(const MultiFunction&, const Variables&, const Variables&,
                                                   Options),
                            const MultiFunction& function, const Variable& x, const Variable& v,
                            Options options) {
  Products all = derivative(function, {x}, v.defined() ? Variables{v} : Variables{}, options);
  return {std::move(all.outputs[0]), std::move(all.products[0])};
}

}  // namespace autograd::functional
}  // namespace tessera
