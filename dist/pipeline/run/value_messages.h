#pragma once  // internal

#include <memory>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "nn/sequence/layer_spec.h"

/// Values between the stages of a pipeline. A message is a header (for each value dtype, shape, where it
/// holds the samples, whether it requires a gradient, whether it is there at all) and then the values, so
/// shapes may differ from micro-batch to micro-batch.
namespace tessera::dist {

/// What goes from stage to stage.
struct PassedValues {
  nn::LayerValues values;
  std::vector<int64_t> random = {};  ///< of a forward: the state of random numbers (StageRandom)
};

/// The other end of a message, its tag, and the action that it belongs to.
struct MessagePlace {
  int peer = 0;      ///< the other rank of the group
  int tag = 0;       ///< the same on both sides; one message of a step
  std::string unit;  ///< the action, such as "1F3": in errors, the ledger and the trace
};

/// A message that is sent. Its values must not change until it is done.
class OutgoingValues {
 public:
  /// Starts it. A value may be undefined. Throws ValueError for more values and dimensions than a header of
  /// 256 numbers describes: about 50 matrices.
  OutgoingValues(Communicator& ranks, MessagePlace place, const PassedValues& passed);
  /// Whether the values may change. Advances the calls.
  bool is_done() const;
  /// Returns when they may. Throws as `Work::wait`.
  void wait();

 private:
  Tensor header_;
  std::vector<Tensor> values_;
  std::vector<Work> calls_;
};

/// A message that is received.
class IncomingValues {
 public:
  /// Posts its header.
  IncomingValues(Communicator& ranks, MessagePlace place);
  /// The rank that sends it.
  int peer() const { return place_.peer; }
  /// Whether the header is there and the values are posted.
  bool has_header() const { return has_header_; }
  /// Posts the values if the header is there, without waiting; returns whether it is.
  bool advance();
  /// Posts the values when the header is there. Throws as `Work::wait`.
  void wait_for_header();
  /// Returns the values, leaves where they require a gradient and `with_gradients`; waits for them. Throws as
  /// `Work::wait`.
  PassedValues take(bool with_gradients);

 private:
  void post_values();

  Communicator& ranks_;
  MessagePlace place_;
  Tensor header_;
  Work header_call_;
  bool has_header_ = false;
  std::vector<Tensor> values_;
  std::vector<bool> requires_grad_;
  std::vector<SampleLayout> layouts_;
  std::vector<int64_t> random_;
  std::vector<Work> calls_;
};

}  // namespace tessera::dist
