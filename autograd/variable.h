#pragma once

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
class Packed;
class Variable;

/// One output of a node of the graph: where a gradient goes next. A null node means that none is wanted
/// there.
struct Edge {
  intrusive_ptr<Node> node;
  int slot = 0;

  Edge();
  Edge(intrusive_ptr<Node> target, int output);
  Edge(const Edge&);
  Edge(Edge&&) noexcept;
  Edge& operator=(const Edge&);
  Edge& operator=(Edge&&) noexcept;
  ~Edge();
};

/// Sees a gradient and may replace it: an undefined result leaves it as it is.
using GradientHook = std::function<Variable(const Variable& gradient)>;
/// Called with a leaf when the last gradient of a backward has been added to it.
using AccumulatedHook = std::function<void(const Variable& leaf)>;

/// Undoes the registration of a hook when asked to.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

/// How a Variable came to share the numbers of another (autograd/README.md, "Views").
enum class ViewKind : uint8_t {
  none,            ///< it does not
  window,          ///< the one result of a recorded view
  one_of_several,  ///< of an operation of several results: `split`
  unrecorded,      ///< made under NoGrad, of a constant
  severed,         ///< made under NoGrad, of what requires a gradient
  same             ///< all of it, behind a rule of its own: what the hooks of a module stand on
};

/// What a Variable is behind its handle. Private to autograd/; users see Variable.
struct VariableImpl : RefCounted<VariableImpl> {
  Tensor value;
  Edge history;  // the node that computed it; for a leaf, its LeafNode once one is needed
  bool requires_grad = false;
  bool is_parameter = false;
  bool is_leaf = true;
  ViewKind view = ViewKind::none;
  DType grad_dtype = f32;
  intrusive_ptr<VariableImpl> gradient;
  Tensor gradient_buffer;            // memory for the gradient; undefined: the tensor of the first one
  intrusive_ptr<VariableImpl> base;  // what this is a view of; itself a view only where `same` has a part
  uint64_t history_version = 0;      // of a view: the version that `history` was last held against
  std::string name;
  SampleLayout samples;  // where it holds the samples of the batch (autograd/sample_layout.h)
  bool retains_grad = false;
  std::shared_ptr<Packed> recompute;  // computes the values again (autograd/recompute.h), as of this version
  uint64_t recompute_version = 0;
  struct Squares {
    double sum;
    uint64_t version;
  };
  std::optional<Squares> squares;  // of a gradient: their sum as of this version (optim/gradient_squares.h)
  uint64_t change_version = 0;     // of the last recorded change; of a view also of its making

  explicit VariableImpl(Tensor tensor) : value(std::move(tensor)), grad_dtype(value.dtype()) {}
  ~VariableImpl();

  /// Itself, with the history of its present numbers: a view takes it from its base when a recorded operation
  /// changed either in place since.
  VariableImpl& current() {
    if (base && history_version != value.version()) [[unlikely]]
      follow_base();
    return *this;
  }

 private:
  void follow_base();
};

struct BackwardOptions {
  bool retain_graph = false;  ///< keep what was saved, so that backward can run again
  bool create_graph = false;  ///< record the backward itself: higher derivatives. Implies retain_graph.
};

/// A Tensor and how it was computed. A handle: copies are the same Variable. A Tensor converts to a constant
/// Variable by itself; the way back is said: `x.value()`. An undefined Variable has neither: its methods
/// throw ValueError, except `defined`, `requires_grad` (false), `detach`, `is_same` and `impl`.
///
/// Threads may compute from, and run backward to, leaves that they share; everything else of a graph belongs
/// to one thread at a time.
class Variable {
 public:
  Variable() = default;
  /// A constant: nothing flows back to it.
  Variable(Tensor value);
  /// A leaf whose gradient accumulates in `grad()`. Throws DTypeError for integer or bool numbers.
  static Variable leaf(Tensor value, std::string name = "");
  /// A leaf that is a module's parameter: saved by reference and read late, never packed by saved-value
  /// hooks.
  static Variable parameter(Tensor value, bool requires_grad = true, std::string name = "");

  bool defined() const { return static_cast<bool>(impl_); }
  const Tensor& value() const { return at().value; }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }
  const Shape& shape() const { return value().shape(); }
  int rank() const { return value().rank(); }
  int64_t size(int64_t dim) const { return value().size(dim); }
  int64_t numel() const { return value().numel(); }
  double item() const { return value().item(); }

  bool requires_grad() const { return impl_ && impl_->current().requires_grad; }
  /// Freezes or unfreezes a leaf. Throws AutogradError for a computed Variable, DTypeError for integers.
  void set_requires_grad(bool requires_grad) const;
  /// Not computed by a recorded operation.
  bool is_leaf() const { return at().current().is_leaf; }
  bool is_parameter() const { return at().is_parameter; }
  const std::string& name() const { return at().name; }
  void set_name(std::string name) const { at().name = std::move(name); }
  /// The operation that computed it: null for a leaf.
  const Node* node() const { return is_leaf() ? nullptr : impl_->history.node.get(); }

  /// The accumulated gradient; undefined before the first backward.
  Variable grad() const;
  /// Sets it: a buffer into which gradients are added in place, or undefined to start afresh. Throws
  /// ShapeError, or DTypeError when it is not `grad_dtype()`.
  void set_grad(const Variable& gradient) const;
  /// Memory for a leaf's gradient: the first one after `set_grad({})` is written there, over the values that
  /// were there, later ones are added. So sharding lays the gradients of many leaves into one array.
  /// Undefined: the gradient stays in the tensor that the first one was computed into. Throws as `set_grad`.
  void set_gradient_buffer(const Tensor& buffer) const;
  /// The dtype in which a leaf's gradient is accumulated (its own by default; f32 under bf16 parameters).
  DType grad_dtype() const { return at().grad_dtype; }
  void set_grad_dtype(DType dtype) const;
  /// Keeps the gradient of a computed Variable in `grad()` too: that of its present numbers, also after an
  /// in-place change; summed over backwards, as a leaf's.
  void retain_grad() const;
  /// Replaces a leaf's numbers (another device or dtype, a view into sharded storage); identity and hooks
  /// stay.
  void set_value(Tensor value) const;

  /// The same numbers as a constant.
  Variable detach() const;

  /// Adds to every leaf that this scalar depends on its derivative. Throws AutogradError when it is not a
  /// scalar, does not depend on a leaf, or its graph was already freed.
  void backward(BackwardOptions options = {}) const;
  /// The same from any shape, given the gradient of this Variable.
  void backward(const Variable& gradient, BackwardOptions options = {}) const;

  /// Called with the summed gradient of this Variable's present numbers in every backward, in order of
  /// registration; an in-place change takes the hooks along. Backward throws ShapeError, DTypeError or
  /// DeviceError naming this Variable when a hook returns a gradient unlike the one that it was given.
  HookHandle register_hook(GradientHook hook) const;
  /// Called when a leaf's last gradient of a backward has been added. Throws AutogradError for a computed
  /// Variable.
  HookHandle register_accumulated_hook(AccumulatedHook hook) const;

  bool is_same(const Variable& other) const { return impl_ == other.impl_; }
  const intrusive_ptr<VariableImpl>& impl() const { return impl_; }
  explicit Variable(intrusive_ptr<VariableImpl> impl) : impl_(std::move(impl)) {}

 private:
  VariableImpl& at() const {
    if (!impl_) [[unlikely]]
      throw_undefined();
    return *impl_;
  }
  [[noreturn]] static void throw_undefined();

  intrusive_ptr<VariableImpl> impl_;
};

inline std::string to_string(const Variable& x) {
  return x.defined() ? describe(x.value()) : std::string("an undefined Variable");
}

/// Adds d(sum of roots)/d(leaf) to the leaves; `gradients` holds one per root (undefined: ones, for a scalar
/// root). With `inputs`, only those leaves receive.
void backward(std::span<const Variable> roots, std::span<const Variable> gradients,
              BackwardOptions options = {}, std::span<const Variable> inputs = {});

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;  ///< an input that no root depends on gives an undefined gradient, not an error
};

/// The gradients of `roots` with respect to `inputs` (leaves or computed), leaving every `grad()` as it was.
/// Throws ValueError for no inputs.
std::vector<Variable> grad(std::span<const Variable> roots, std::span<const Variable> inputs,
                           std::span<const Variable> gradients = {}, GradOptions options = {});
/// Of one scalar.
std::vector<Variable> grad(const Variable& root, std::initializer_list<Variable> inputs,
                           GradOptions options = {});

}  // namespace tessera
