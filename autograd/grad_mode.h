#pragma once

namespace tessera {

/// Whether this thread records operations on Variables. Initially true.
bool grad_mode();

/// Sets this thread's grad mode while it lives.
class GradMode {
 public:
  /// `record`: whether operations are recorded. The destructor restores the mode before.
  explicit GradMode(bool record);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/// Nothing is recorded while it lives: `NoGrad no_grad;` around evaluation or sampling.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace tessera
