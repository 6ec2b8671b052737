// The end of a process' part in a job: ranks leave together, whichever of them comes last.

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "dist/comm/remote/frame.h"
#include "dist/comm/remote/loop.h"
#include "dist/comm/remote/wire.h"

namespace {

using namespace tessera::dist::remote;

/// Rank 0 of 2, where a send is over some turns after it began.
class SlowWire final : public Wire {
 public:
  explicit SlowWire(int turns) : turns_(turns) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  int highest_tag() const override { return 1 << 20; }
  void send(const void*, int64_t count, int to, int, Done done) override {
    sends_.push_back({turns_, count, to, std::move(done)});
  }
  void receive(void* bytes, int64_t, int, int, Done done) override {
    receives_.push_back({bytes, std::move(done)});
  }
  bool test() override {
    std::vector<Send> over, left;
    for (Send& send : sends_) (--send.turns <= 0 ? over : left).push_back(std::move(send));
    sends_ = std::move(left);
    for (Send& send : over) send.done(send.to, send.count);
    return !over.empty();
  }
  bool is_sending() const override { return !sends_.empty(); }
  void finish() override {}

  /// The other rank's frame arrives.
  void deliver(const Frame& frame) {
    REQUIRE_FALSE(receives_.empty());
    const Receive receive = std::move(receives_.front());
    receives_.erase(receives_.begin());
    std::memcpy(receive.bytes, &frame, sizeof frame);
    receive.done(1, frame.size());
  }

 private:
  struct Send {
    int turns;
    int64_t count;
    int to;
    Done done;
  };
  struct Receive {
    void* bytes;
    Done done;
  };
  int turns_;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
};

}  // namespace

TEST_CASE("leave: the last rank to leave waits until its own frames have gone") {
  for (const int turns : {1, 2, 5}) {
    CAPTURE(turns);
    auto made = std::make_unique<SlowWire>(turns);
    SlowWire& wire = *made;
    Loop loop(std::move(made));
    Frame frame;
    frame.type = Frame::Type::leave;
    wire.deliver(frame);  // the other rank has left
    bool has_left = false;
    Loop::Requests requests;
    requests.leave = [&] { has_left = true; };
    CHECK(loop.run_once(std::move(requests)));
    for (int turn = 1; turn < turns + 1 && !has_left; ++turn) CHECK(loop.run_once({}));
    CHECK(has_left);
    CHECK_FALSE(wire.is_sending());
  }
}
