#pragma once

#include <unordered_map>
#include <vector>

#include "tensor/tensor.h"

namespace tessera {

/// State that a checkpointed segment reads beside its inputs and that may change before backward runs the
/// segment again, for example whether a module is in training. The first run stores the states per owner, in
/// order (a segment may change a mode itself); the rerun reads the same ones. Also the storages of parameters
/// that an owner may free (tensor/memory/storage_owner.h): they are brought back before the rerun.
class SegmentState {
 public:
  /// The first run stores `present`, the state of `owner`, and returns it; the rerun returns what was stored.
  bool state_of(const void* owner, bool present);
  /// The first run stores `storage`, once; the rerun does nothing.
  void note_parameter(const intrusive_ptr<Storage>& storage);
  /// To call before each rerun: `state_of` then returns what was stored, from the first state on. Brings the
  /// stored storages back.
  void begin_rerun();
  /// Drops the stored states and storages.
  void release();

 private:
  struct States {
    std::vector<bool> stored;
    size_t next = 0;
  };
  std::unordered_map<const void*, States> states_;
  std::vector<intrusive_ptr<Storage>> storages_;
  bool rerun_ = false;
};

/// Makes `state` this thread's while it lives. Scopes nest; the state of the outer segment is read first.
class SegmentStateScope {
 public:
  /// `state` must outlive the scope.
  explicit SegmentStateScope(SegmentState& state);
  ~SegmentStateScope();
  SegmentStateScope(const SegmentStateScope&) = delete;
  SegmentStateScope& operator=(const SegmentStateScope&) = delete;

 private:
  friend bool state_in_first_run(const void* owner, bool present);
  friend void note_parameter_of_segment(const Tensor& parameter);
  SegmentState& state_;
  SegmentStateScope* outer_;
};

/// `present`, the present state of `owner`; in the rerun of a checkpointed segment, the state in the first
/// run.
bool state_in_first_run(const void* owner, bool present);
/// Notes for the segments that this thread runs, if any, that an operation saves `parameter` by reference.
void note_parameter_of_segment(const Tensor& parameter);

}  // namespace tessera
