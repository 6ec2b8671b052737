#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/function_ref.h"
#include "tensor/tensor.h"

namespace tessera {

/// Results that a checkpointed segment keeps, call by call, so that running it again does not compute them
/// again. Operations reach it through `record`, when they give their result as a function to call.
class KeptOutputs {
 public:
  /// Keeps the results of operations of these names.
  explicit KeptOutputs(std::vector<std::string> names) : names_(std::move(names)) {}

  /// What `compute` returns; in a rerun, what it returned in the first run. Throws AutogradError when that
  /// was changed in place since, or when the rerun calls the operations in another order or more often.
  std::vector<Tensor> outputs(const char* name, FunctionRef<std::vector<Tensor>()> compute);
  bool wants(const char* name) const;
  /// An operation ran on constants: there is nothing to keep, but the name is one.
  void note_constant(const char* name) {
    if (!rerun_ && wants(name)) on_constants_.push_back(name);
  }
  /// Throws ValueError naming `segment` for a name that is no operation's, as far as is known after the first
  /// run: none of the library's that can be kept, and none that the segment ran.
  void require_names_known(const std::string& segment) const;

  void begin_rerun() {
    rerun_ = true;
    next_ = 0;
  }
  void release() {
    calls_.clear();
    on_constants_.clear();
  }

 private:
  struct Call {
    std::string name;
    std::vector<Tensor> outputs;
    std::vector<uint64_t> versions;
  };
  std::vector<std::string> names_;
  std::vector<Call> calls_;
  std::vector<std::string> on_constants_;
  bool rerun_ = false;
  size_t next_ = 0;
};

/// The one that this thread's operations ask; null outside of segments that keep something.
KeptOutputs* current_kept_outputs();

/// Makes `kept` current in this thread while it lives; null for none.
class KeptOutputsScope {
 public:
  explicit KeptOutputsScope(KeptOutputs* kept);
  ~KeptOutputsScope();
  KeptOutputsScope(const KeptOutputsScope&) = delete;
  KeptOutputsScope& operator=(const KeptOutputsScope&) = delete;

 private:
  KeptOutputs* outer_;
};

}  // namespace tessera
