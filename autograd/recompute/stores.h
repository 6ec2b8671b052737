#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "autograd/graph/saving_policy.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"

/// Places for values that backward reads later: the inputs of checkpointed segments
/// (`CheckpointInputsScope`), or all that operations save (`SavingPolicyScope`). Gradients have the same
/// bits.
namespace tessera {

/// A value that the budget of a HostStore does not allow.
struct StoreBudgetError : OutOfMemoryError {
  using OutOfMemoryError::OutOfMemoryError;
};

/// Holds values as copies in the memory of the CPU, counted apart from what the rank holds: offload of
/// activations, with a budget of its own, on a CPU too.
///
///     HostStore host(int64_t{4} << 30);
///     const CheckpointInputsScope scope(host.policy());
///     loss = model.loss(ids, targets);
///     loss.backward();
class HostStore {
 public:
  /// At most `budget_bytes` at once; 0 for no limit. Errors call the budget `budget_name`, the option that
  /// sets it. Throws ConfigError for a budget below 0.
  explicit HostStore(int64_t budget_bytes = 0, std::string budget_name = "HostStore: budget_bytes");

  /// Copies each value here, and back to its device when it is read. A value beyond the budget is a
  /// StoreBudgetError that names the budget and the bytes. Values may outlive the store.
  SavingPolicy policy() const;
  /// What is held, in the category `activation`.
  const MemoryAccount& account() const { return *account_; }

 private:
  intrusive_ptr<MemoryAccount> account_;
  int64_t budget_bytes_;
  std::string budget_name_;
};

/// Holds values in a file without a name, which the system removes with the process, however it ends. Ranges
/// of values that are no longer held are written again; without any the file is empty.
class FileStore {
 public:
  /// The file is made in `folder`. Throws ConfigError, naming it, where that is not possible.
  explicit FileStore(const std::string& folder);

  /// Writes each value, and reads it to its device when it is needed. Throws OutOfMemoryError, naming the
  /// folder and the bytes, where the disk is full, and AutogradError where it cannot be written or read.
  SavingPolicy policy() const;
  /// Bytes of the values that are held, and the most that were held at once.
  /// @{
  int64_t held_bytes() const;
  int64_t peak_bytes() const;
  /// @}
  /// Bytes of the file: those that are held, and free ranges between them.
  int64_t file_bytes() const;

  class File;  ///< the open file; its values share it

 private:
  std::shared_ptr<File> file_;
};

}  // namespace tessera
