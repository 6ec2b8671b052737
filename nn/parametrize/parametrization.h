#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "nn/module.h"

/// Parameters as functions of other parameters, as torch.nn.utils.parametrize has them.
namespace tessera::nn {

/// A parameter of a module as a function of others, computed in each call of the module. The module then has
/// the child `parametrizations.NAME`, this one, with the parameters that are trained and saved:
///
///     struct Positive : nn::Parametrization {  // the exponential of a parameter
///       Variable& original;
///       explicit Positive(const nn::Module::Entry& weight)
///           : original(parameter_from(weight, "original", [](const Tensor& w, uint64_t) { return w.log();
///           })) {}
///       Variable compute() override { return original.exp(); }
///     };
///     nn::register_parametrization<Positive>(net.fc, "weight");
class Parametrization : public Module {
 public:
  /// Makes the parametrisation of a parameter, which may be on meta.
  using Make = std::function<std::unique_ptr<Parametrization>(const Module::Entry& parameter)>;
  /// A function of the parametrised parameter's values w; `key` is that of its initial values, for random
  /// numbers. On meta it gives shape and dtype.
  using InitialValues = std::function<Tensor(const Tensor& w, uint64_t key)>;

  /// The parameter's value, with history. In training it may change buffers.
  virtual Variable compute() = 0;

 protected:
  /// Declares a parameter or buffer.
  using Declare = std::function<Variable&(const Shape& shape, init::Initializer initializer, DType dtype)>;

  /// Declares a parameter with these values at the beginning: of those that the parametrised parameter has;
  /// where it is on meta, of those that `nn::materialize` would give it with the same seed.
  Variable& parameter_from(const Module::Entry& parametrized, const std::string& name, InitialValues values);
  /// The same for the values themselves.
  Variable& parameter_from(const Module::Entry& parametrized, const std::string& name);
  /// The same for what `declare` declares: a buffer, or a parameter of a child.
  static Variable& declared_from(const Module::Entry& parametrized, InitialValues values,
                                 const Declare& declare);

 private:
  friend void register_parametrization(Module& module, const std::string& name, const Make& make);
  friend void remove_parametrizations(Module& module, const std::string& name, bool leave_parametrized);
  friend bool is_parametrized(const Module& module, const std::string& name);
  friend void copy_parametrizations(Module& to, const Module& from);
};

/// Replaces the module's own parameter `name` by what `make` makes of it. It keeps its values, up to the
/// rounding of the function. In a call of the module its member, such as `linear.weight`, is the computed
/// Variable; between calls it is undefined. Calls from several threads run one after another;
/// no other thread lists its parameters meanwhile. An optimizer made before has the old parameter: make it
/// afterwards. `nn::clone` copies parametrisations.
/// Throws ValueError where the module has no such parameter; ConfigError where it is parametrised already, is
/// tied to another one, has a master or is stored as 8-bit integers, and for a module that is sharded, that
/// is a part of a stage, or that has no `forward`.
void register_parametrization(Module& module, const std::string& name, const Parametrization::Make& make);
/// The same for a P constructed from the parameter and `args`.
template <class P, class... Args>
requires std::derived_from<P, Parametrization>
void register_parametrization(Module& module, const std::string& name, Args... args) {
  register_parametrization(module, name,
                           [args...](const Module::Entry& parameter) -> std::unique_ptr<Parametrization> {
                             return std::make_unique<P>(parameter, args...);
                           });
}

/// Makes `name` a plain parameter again: the Variable that it was before, with the value that a call in
/// evaluation computes, or without `leave_parametrized` that of the parametrisation's `original`. Throws
/// ValueError where it is not parametrised, or has no `original` of its shape; ConfigError for a sharded
/// module and one in mixed precision.
void remove_parametrizations(Module& module, const std::string& name = "weight",
                             bool leave_parametrized = true);

/// Whether the module's own parameter `name` is parametrised; with "" whether any is.
bool is_parametrized(const Module& module, const std::string& name = "");

/// Gives `to`, of the same type, the parametrisations of `from` that it has not.
void copy_parametrizations(Module& to, const Module& from);

}  // namespace tessera::nn
