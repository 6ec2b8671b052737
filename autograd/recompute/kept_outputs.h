#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/function_ref.h"
#include "tensor/tensor.h"

namespace tessera {

/// Results that a checkpointed segment keeps, call by call, so that a rerun does not compute them again.
/// `record` uses it for operations that pass their result as a function to call.
class KeptOutputs {
 public:
  /// Keeps the results of operations of these names.
  explicit KeptOutputs(std::vector<std::string> names) : names_(std::move(names)) {}

  /// The result of `compute`; in a rerun, its result in the first run. Throws AutogradError when that was
  /// changed in place since, or when the rerun calls the operations in another order or more often.
  std::vector<Tensor> outputs(const char* name, FunctionRef<std::vector<Tensor>()> compute);
  /// Whether the results of operations named `name` are kept.
  bool keeps(const char* name) const;
  /// Notes the name of an operation that ran on constants: its result is not kept.
  void note_constant(const char* name) {
    if (!rerun_ && keeps(name)) names_on_constants_.push_back(name);
  }
  /// To call after the first run: throws ValueError naming `segment` for a name that belongs neither to an
  /// operation of the library that can be kept nor to one that the segment ran.
  void require_names_known(const std::string& segment) const;

  /// To call before each rerun: `outputs` then returns what was kept, from the first call on.
  void begin_rerun() {
    rerun_ = true;
    next_ = 0;
  }
  /// Frees the kept results. The segment cannot run again then.
  void release() {
    calls_.clear();
    names_on_constants_.clear();
  }

 private:
  struct Call {
    std::string name;
    std::vector<Tensor> outputs;
    std::vector<uint64_t> versions;
  };
  std::vector<std::string> names_;
  std::vector<Call> calls_;
  std::vector<std::string> names_on_constants_;
  bool rerun_ = false;
  size_t next_ = 0;
};

/// The one that applies to this thread's operations; null outside of segments that keep something.
KeptOutputs* current_kept_outputs();

/// While it lives, `kept` applies to this thread's operations; null for none.
class KeptOutputsScope {
 public:
  /// `kept` must outlive the scope; the destructor restores the one before.
  explicit KeptOutputsScope(KeptOutputs* kept);
  ~KeptOutputsScope();
  KeptOutputsScope(const KeptOutputsScope&) = delete;
  KeptOutputsScope& operator=(const KeptOutputsScope&) = delete;

 private:
  KeptOutputs* outer_;
};

}  // namespace tessera
