#pragma once

#include <unordered_map>
#include <vector>

#include "tensor/tensor.h"

namespace tessera {

/// State that a checkpointed segment reads beside its inputs and that may change before backward runs the
/// segment again: whether a module is in training, for one. The first run notes the answers, by whose they
/// are and in their order (a segment may change a mode itself); running again gives the same. Also the
/// storages of parameters, where these come and go (tensor/memory/storage_owner.h): they are brought back
/// before the segment runs again.
class SegmentState {
 public:
  bool answer(const void* owner, bool now);
  void note_parameter(const intrusive_ptr<Storage>& storage);
  void begin_rerun();
  void release();

 private:
  struct Answers {
    std::vector<bool> given;
    size_t next = 0;
  };
  std::unordered_map<const void*, Answers> answers_;
  std::vector<intrusive_ptr<Storage>> storages_;
  bool rerun_ = false;
};

/// Makes `state` this thread's while it lives. In a first run it may lie inside another segment's, which is
/// then asked first.
class SegmentStateScope {
 public:
  explicit SegmentStateScope(SegmentState& state);
  ~SegmentStateScope();
  SegmentStateScope(const SegmentStateScope&) = delete;
  SegmentStateScope& operator=(const SegmentStateScope&) = delete;

 private:
  friend bool as_in_first_run(const void* owner, bool now);
  friend void note_parameter_of_segment(const Tensor& parameter);
  SegmentState& state_;
  SegmentStateScope* outer_;
};

/// `now`, the present state of `owner`; while this thread runs a checkpointed segment again, the state that
/// its first run was given.
bool as_in_first_run(const void* owner, bool now);
/// An operation saves `parameter` by reference: the segments that this thread runs, if any, read it.
void note_parameter_of_segment(const Tensor& parameter);

}  // namespace tessera
