#pragma once

namespace tessera {

/// Whether this thread records operations on Variables. Initially true.
bool grad_mode();
/// The same under PyTorch's name.
inline bool is_grad_enabled() {
  return grad_mode();
}

/// Sets this thread's grad mode while it lives: `GradMode mode(training);`.
class GradMode {
 public:
  /// `record`: whether operations are recorded. The destructor restores the mode before.
  [[nodiscard]] explicit GradMode(bool record);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/// Nothing is recorded while it lives: `NoGrad no_grad;` around evaluation or sampling.
class NoGrad : public GradMode {
 public:
  [[nodiscard]] NoGrad() : GradMode(false) {}
};

/// Operations are recorded while it lives, also inside a NoGrad: `EnableGrad enable_grad;`.
class EnableGrad : public GradMode {
 public:
  [[nodiscard]] EnableGrad() : GradMode(true) {}
};

/// For evaluation: with true, nothing is recorded while it lives, as under NoGrad; with false, operations are
/// recorded, also inside another. Unlike PyTorch's, it makes ordinary constants: they may be used, saved and
/// changed in a graph later, and an EnableGrad inside it records.
class InferenceMode : public GradMode {
 public:
  /// `inference`: whether nothing is recorded.
  [[nodiscard]] explicit InferenceMode(bool inference = true) : GradMode(!inference) {}
};

/// PyTorch's names of the guards. They are objects with a name: `set_grad_enabled mode(false);` holds to the
/// end of its block, while the statement `set_grad_enabled(false);` would end at once, and compilers warn.
/// @{
using NoGradGuard = NoGrad;
using AutoGradMode = GradMode;
using set_grad_enabled = GradMode;
/// @}

// clang-format off
/// Errors that say what to write.
/// @{
void no_grad() = delete;         // write NoGradGuard guard; to the end of a block, or no_grad([&] { ... })
void enable_grad() = delete;     // write EnableGrad guard; to the end of a block, or enable_grad([&] { ... })
void inference_mode() = delete;  // write InferenceMode guard; to the end of a block, or inference_mode([&] { ... })
/// @}
// clang-format on

/// What `function()` returns, called while nothing is recorded.
template <class Function>
decltype(auto) no_grad(Function&& function) {
  const NoGrad guard;
  return static_cast<Function&&>(function)();
}
/// The same while operations are recorded.
template <class Function>
decltype(auto) enable_grad(Function&& function) {
  const EnableGrad guard;
  return static_cast<Function&&>(function)();
}
/// The same under an InferenceMode.
template <class Function>
decltype(auto) inference_mode(Function&& function) {
  const InferenceMode guard;
  return static_cast<Function&&>(function)();
}

}  // namespace tessera
