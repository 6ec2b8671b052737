#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/memory/intrusive_ptr.h"
#include "tensor/random/sample_layout.h"
#include "tensor/tensor.h"

namespace tessera {

class Node;
class LeafNode;
class ValueSource;
class Variable;

/// One output of a node of the graph, to which a gradient is passed on. A null node: no gradient is needed.
struct Edge {
  intrusive_ptr<Node> node;  ///< null: no gradient is needed
  int output = 0;            ///< the index of the output

  Edge();
  /// Leads to output `output` of `target`.
  Edge(intrusive_ptr<Node> target, int output);
  /// Copies share the node. Defined where Node is complete.
  /// @{
  Edge(const Edge&);
  Edge(Edge&&) noexcept;
  Edge& operator=(const Edge&);
  Edge& operator=(Edge&&) noexcept;
  /// @}
  ~Edge();
};

/// Receives a gradient and may replace it: an undefined result leaves it as it is.
using GradientHook = std::function<Variable(const Variable& gradient)>;
/// Called with a leaf when the last gradient of a backward has been added to it.
using PostAccumulateGradHook = std::function<void(const Variable& leaf)>;

/// Removes a registered hook when `remove` is called.
class HookHandle {
 public:
  HookHandle() = default;
  /// `remove` removes the hook.
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// Removes the hook at the first call; further calls do nothing. Deleting the handle does not remove
  /// the hook.
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

/// How a Variable came to share the storage of another (autograd/README.md, "Views and in-place changes").
enum class ViewKind : uint8_t {
  none,                       ///< not a view
  recorded,                   ///< the one result of a recorded view operation
  one_of_several,             ///< one of the results of an operation: `split`
  unrecorded_constant,        ///< made under NoGrad, of a constant
  unrecorded_differentiable,  ///< made under NoGrad, of a Variable that requires a gradient
  same,                       ///< all elements, behind an identity operation of a module's hooks
  of_custom_function          ///< in the memory of an input of a custom function
};

/// The data of a Variable, to which handles refer. Private to autograd/; users see Variable.
struct VariableImpl : RefCounted<VariableImpl> {
  Tensor value;                          ///< what `Variable::value` returns
  Edge history;                          ///< the node that computed it; for a leaf its LeafNode, if any
  bool requires_grad = false;            ///< backward computes a gradient for it
  bool is_parameter = false;             ///< made by `Variable::parameter`
  bool is_leaf = true;                   ///< no recorded operation computed it
  ViewKind view = ViewKind::none;        ///< how it came to share the storage of another
  DType grad_dtype = f32;                ///< of a leaf: the dtype in which its gradient is accumulated
  intrusive_ptr<VariableImpl> gradient;  ///< the accumulated gradient; null: none
  Tensor gradient_buffer;                ///< memory for the gradient; undefined: the tensor of the first one
  bool has_external_gradient_buffer = false;  ///< the buffer belongs to a sharded unit
  intrusive_ptr<VariableImpl> base;  ///< of a view; itself a view only where one of the two is `same`
  uint64_t history_version = 0;      ///< of a view: the version for which `history` was last checked
  std::string name;                  ///< for messages and drawings
  SampleLayout samples;              ///< where it holds the batch's samples (autograd/views/sample_layout.h)
  bool retains_grad = false;         ///< it is computed and keeps its gradient (`retain_grad`)
  std::shared_ptr<ValueSource> recompute;  ///< computes the values again (autograd/recompute/recompute.h)
  uint64_t recompute_version = 0;          ///< of the values that it computes
  uint64_t change_version = 0;  ///< of the last recorded change; of a view at first that of its creation

  /// A constant.
  explicit VariableImpl(Tensor tensor) : value(std::move(tensor)), grad_dtype(value.dtype()) {}
  ~VariableImpl();

  /// This Variable with the history of its present values: a view takes a new one from its base if a recorded
  /// operation changed either in place since.
  VariableImpl& current() {
    if (base && history_version != value.version()) [[unlikely]]
      update_history();
    return *this;
  }

 private:
  void update_history();
};

/// Options of a backward.
struct BackwardOptions {
  bool retain_graph = false;  ///< keep what was saved, so that backward can run again
  bool create_graph = false;  ///< record the backward itself: higher derivatives. Implies retain_graph.
};

/// A Tensor and how it was computed. A handle: copies are the same Variable. A Tensor converts to a constant
/// Variable implicitly; `x.value()` is the Tensor. An undefined Variable has neither: its methods throw
/// ValueError (AutogradError those for which it would have to require a gradient, such as `backward`), except
/// `defined`, `requires_grad` (false), `detach`, `is_same` and `impl`. What is computed from it has methods
/// too (tensor/methods.h): `x.exp()` is `exp(x)`.
///
/// Threads may compute from, and run backward to, leaves that they share. One thread at a time may use the
/// rest of a graph.
class Variable : public TensorMethods<Variable> {
 public:
  Variable() = default;
  /// A constant: it receives no gradient.
  Variable(Tensor value);
  /// With `requires_grad` a leaf, as `leaf(value)`.
  Variable(Tensor value, bool requires_grad)
      : Variable(requires_grad ? leaf(std::move(value)) : Variable(std::move(value))) {}
  /// A leaf whose gradient accumulates in `grad()`. Throws DTypeError for integer or bool values.
  static Variable leaf(Tensor value, std::string name = "");
  /// A leaf that is a module's parameter: saved by reference, read when backward reaches it; saving
  /// policies do not apply to it.
  static Variable parameter(Tensor value, bool requires_grad = true, std::string name = "");

  /// Whether it holds a tensor.
  bool defined() const { return static_cast<bool>(impl_); }
  /// The tensor, without history: what is computed from it is not recorded.
  const Tensor& value() const { return at().value; }
  /// As the method of `value()` with this name.
  /// @{
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }
  const Shape& shape() const { return value().shape(); }
  int ndim() const { return value().ndim(); }
  int dim() const { return value().ndim(); }
  int64_t size(int64_t dim) const { return value().size(dim); }
  const Shape& size() const { return value().shape(); }
  template <size_t N>
  std::array<int64_t, N> dims() const {
    return value().template dims<N>();
  }
  int64_t numel() const { return value().numel(); }
  bool is_contiguous() const { return value().is_contiguous(); }
  bool is_floating_point() const { return value().is_floating_point(); }
  double item() const { return value().item(); }
  int64_t item_i64() const { return value().item_i64(); }
  template <class T>
  T item() const requires(std::is_arithmetic_v<T>) {
    return value().template item<T>();
  }
  /// @}

  /// Sizes without braces: `x.view(2, -1)` is `x.view({2, -1})`.
  /// @{
  template <std::integral... Sizes>
  Variable view(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return view(Shape{static_cast<int64_t>(sizes)...});
  }
  template <std::integral... Sizes>
  Variable reshape(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return reshape(Shape{static_cast<int64_t>(sizes)...});
  }
  template <std::integral... Sizes>
  Variable permute(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return permute(Shape{static_cast<int64_t>(sizes)...});
  }
  template <std::integral... Sizes>
  Variable expand(Sizes... sizes) const requires(sizeof...(Sizes) > 1) {
    return expand(Shape{static_cast<int64_t>(sizes)...});
  }
  /// @}
  /// Views, as the functions with these names (autograd/functions/view.h).
  /// @{
  Variable view(const Shape& shape) const;
  Variable reshape(const Shape& shape) const;
  Variable flatten(int64_t start = 0, int64_t end = -1) const;
  Variable transpose(int64_t dim0, int64_t dim1) const;
  Variable permute(const Shape& order) const;
  Variable expand(const Shape& shape) const;
  Variable slice(int64_t dim, int64_t start, int64_t end, int64_t step = 1) const;
  Variable narrow(int64_t dim, int64_t start, int64_t length) const;
  Variable select(int64_t dim, int64_t i) const;
  Variable unsqueeze(int64_t dim) const;
  Variable squeeze(int64_t dim) const;
  Variable squeeze() const;
  /// @}
  /// Copies, as the functions with these names (autograd/functions/elementwise/cast.h).
  /// @{
  Variable clone() const;
  Variable contiguous() const;
  Variable to(DType dtype) const;
  Variable to(Device device) const;
  Variable to(Device device, DType dtype) const;
  Variable to(const char* device) const { return to(parse_device(device)); }
  /// @}

  /// Whether backward computes a gradient for it: for a leaf as set, else whether a recorded operation
  /// computed it. False when undefined.
  bool requires_grad() const { return impl_ && impl_->current().requires_grad; }
  /// Freezes or unfreezes a leaf. Throws AutogradError for a computed Variable, DTypeError for integers.
  void set_requires_grad(bool requires_grad) const;
  /// The same; the result is this Variable: `Variable w = randn({3, 4}); w.requires_grad_();`.
  const Variable& requires_grad_(bool requires_grad = true) const {
    set_requires_grad(requires_grad);
    return *this;
  }
  /// Whether no recorded operation computed it.
  bool is_leaf() const { return at().current().is_leaf; }
  /// Whether `parameter` made it.
  bool is_parameter() const { return at().is_parameter; }
  /// Its name in messages and drawings (autograd/debug/graph_dot.h); empty unless given.
  const std::string& name() const { return at().name; }
  /// Gives all handles to this Variable the name.
  void set_name(std::string name) const { at().name = std::move(name); }
  /// The operation that computed it: null for a leaf.
  const Node* node() const { return is_leaf() ? nullptr : impl_->history.node.get(); }
  /// The same under PyTorch's name, to register hooks on the operation (autograd/graph/node.h).
  Node* grad_fn() const { return is_leaf() ? nullptr : impl_->history.node.get(); }

  /// The accumulated gradient; undefined before the first backward.
  Variable grad() const;
  /// Sets the gradient, to which later ones are added in place; undefined clears it. Throws ShapeError, or
  /// DTypeError when its dtype is not `grad_dtype()`.
  void set_grad(const Variable& gradient) const;
  /// Memory for a leaf's gradient: the first gradient after `set_grad({})` overwrites it, later ones are
  /// added. Sharding gives the gradients of many leaves one array this way. Undefined: the gradient stays in
  /// the tensor that the first one was computed into. Throws as `set_grad`.
  void set_gradient_buffer(const Tensor& buffer) const;
  /// The dtype in which a leaf's gradient is accumulated (the leaf's by default; f32 for bf16 parameters).
  DType grad_dtype() const { return at().grad_dtype; }
  /// Sets that dtype; a gradient that is there already keeps its own. Throws DTypeError unless `dtype` is
  /// floating.
  void set_grad_dtype(DType dtype) const;
  /// Keeps the gradient of a computed Variable in `grad()` too: that of its present values, also after an
  /// in-place change; summed over backwards, as a leaf's.
  void retain_grad() const;
  /// Replaces a leaf's values (another device or dtype, a view into sharded storage); identity and hooks
  /// stay.
  void set_value(Tensor value) const;

  /// A constant that shares the values.
  Variable detach() const;
  /// Makes this Variable a constant: its history, hooks and retained gradient are dropped, its values stay.
  /// Throws AutogradError for a view: its base would keep the history; `detach` gives a new constant.
  const Variable& detach_() const;

  // Indexing, as the methods of Tensor with these names.

  /// The view `select(x, 0, i)`, or of a range of dimension 0. `x[2] = y` and `x[2][0] = 1.0` write into x.
  /// @{
  Variable operator[](int64_t i) const;
  Variable operator[](const Slice& range) const;
  /// @}
  /// The elements that the indices address: a view, or a copy where one of the indices is a tensor. The
  /// gradients of an element that is read several times are added, in the order of the result.
  /// @{
  const Variable index(std::initializer_list<Index> indices) const;
  const Variable index(std::span<const Index> indices) const;
  /// @}
  /// Writes or adds `value` in place. Throws also as `record_in_place` (autograd/record.h). The value
  /// receives the gradient of the elements that it was written to, where several values went to one element
  /// each of them; this Variable's old values receive that of the other elements (with `accumulate`, of all).
  /// @{
  void index_put_(std::initializer_list<Index> indices, const Variable& value, bool accumulate = false) const;
  void index_put_(std::initializer_list<Index> indices, const Scalar& value, bool accumulate = false) const;
  void index_put_(std::span<const Index> indices, const Variable& value, bool accumulate = false) const;
  void index_put_(std::span<const Index> indices, const Scalar& value, bool accumulate = false) const;
  /// @}
  /// `x[tensor] = value` would write to a copy: the message says what to write instead.
  template <class T>
  requires std::convertible_to<const T&, Variable>
  void operator[](const T&) const {
    static_assert(sizeof(T) == 0, "write x.index({tensor}) to read, x.index_put_({tensor}, value) to write");
  }

  /// To a variable, another handle.
  /// @{
  Variable(const Variable&) = default;
  Variable(Variable&&) = default;
  Variable& operator=(const Variable&) & = default;
  Variable& operator=(Variable&&) & = default;
  /// @}
  /// To the result of an expression, `x[2] = y`: the values, as `index_put_({}, value)`. So x changes where
  /// the result is a view of x.
  /// @{
  void operator=(const Variable& value) &&;
  void operator=(Variable&& value) && { std::move(*this) = static_cast<const Variable&>(value); }
  void operator=(const Tensor& value) && { std::move(*this) = Variable(value); }
  template <class T>
  requires std::convertible_to<T, Scalar>
  void operator=(T value) && { assign(value); }
  /// @}
  /// To the result of `index`, which may be a copy: the message says what to write instead.
  template <class T>
  void operator=(const T&) const&& {
    static_assert(sizeof(T) == 0, "write x.index_put_({...}, value) instead of x.index({...}) = value");
  }

  /// Adds the derivative of this scalar to every leaf on which it depends. Throws AutogradError when it is
  /// not a scalar, does not depend on a leaf, or its graph was already freed.
  void backward(BackwardOptions options = {}) const;
  /// The same for any shape, given the gradient of this Variable.
  void backward(const Variable& gradient, BackwardOptions options = {}) const;

  /// Called with the summed gradient of this Variable's present values in every backward, in order of
  /// registration; hooks stay through in-place changes. Backward throws ShapeError, DTypeError or DeviceError
  /// naming this Variable when a hook returns a gradient unlike the one that it was given.
  HookHandle register_hook(GradientHook hook) const;
  /// The same for a hook that returns nothing.
  template <class Hook>
  requires(std::is_void_v<std::invoke_result_t<Hook&, const Variable&>>) HookHandle register_hook(Hook hook)
  const {
    return register_hook(GradientHook([hook = std::move(hook)](const Variable& gradient) mutable {
      hook(gradient);
      return Variable();
    }));
  }
  /// Called when a leaf's last gradient of a backward has been added. Throws AutogradError for a computed
  /// Variable.
  HookHandle register_post_accumulate_grad_hook(PostAccumulateGradHook hook) const;

  /// Whether both are handles to one Variable, or both undefined.
  bool is_same(const Variable& other) const { return impl_ == other.impl_; }
  /// The data, null when undefined. Its address identifies the Variable.
  const intrusive_ptr<VariableImpl>& impl() const { return impl_; }
  /// Another handle to `impl`; undefined when that is null.
  explicit Variable(intrusive_ptr<VariableImpl> impl) : impl_(std::move(impl)) {}

 private:
  VariableImpl& at() const {
    if (!impl_) [[unlikely]]
      throw_undefined();
    return *impl_;
  }
  [[noreturn]] static void throw_undefined();
  void assign(const Scalar& value) const;

  intrusive_ptr<VariableImpl> impl_;
};

/// Its shape, dtype and device in messages: "(2, 128, 512) f32 on cpu".
inline std::string to_string(const Variable& x) {
  return x.defined() ? describe(x.value()) : std::string("an undefined Variable");
}

/// Adds d(sum of roots)/d(leaf) to the leaves; `gradients` holds one per root (undefined: ones, for a scalar
/// root). With `inputs`, only to those: leaves or computed Variables, each of which gets its gradient in
/// `grad()`, added to the one that is there.
void backward(std::span<const Variable> roots, std::span<const Variable> gradients,
              BackwardOptions options = {}, std::span<const Variable> inputs = {});

/// Options of `grad`.
struct GradOptions {
  bool retain_graph = false;  ///< as in BackwardOptions
  bool create_graph = false;  ///< as in BackwardOptions
  bool allow_unused = false;  ///< an input that no root depends on gives an undefined gradient, not an error
};

/// The gradients of `roots` with respect to `inputs` (leaves or computed), leaving the `grad()` of leaves as
/// it was; one that a computed Variable retains is added to. Throws ValueError for no inputs.
std::vector<Variable> grad(std::span<const Variable> roots, std::span<const Variable> inputs,
                           std::span<const Variable> gradients = {}, GradOptions options = {});
/// The same for one scalar root.
std::vector<Variable> grad(const Variable& root, std::initializer_list<Variable> inputs,
                           GradOptions options = {});
/// The same for one input.
inline std::vector<Variable> grad(const Variable& root, const Variable& input, GradOptions options = {}) {
  return grad(root, {input}, options);
}

}  // namespace tessera
