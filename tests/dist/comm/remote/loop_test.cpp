#include "dist/comm/remote/loop.h"

#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "dist/comm/remote/frame.h"

namespace {

using namespace tessera::dist::remote;

/// The wire of rank 0 of two, with the other rank's frames from a list. Sends are over some turns later, as
/// where a message is too long to be copied at once.
class SlowWire final : public Wire {
 public:
  explicit SlowWire(int turns_of_a_send) : turns_of_a_send_(turns_of_a_send) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  int highest_tag() const override { return 32767; }
  void send(const void*, int64_t count, int to, int, Done done) override {
    sends_.push_back({std::move(done), to, count, turns_of_a_send_});
  }
  void receive(void* bytes, int64_t, int, int, Done done) override {
    receives_.emplace_back(static_cast<char*>(bytes), std::move(done));
  }
  bool test() override {
    bool is_any = false;
    for (auto& one : std::exchange(sends_, {})) {
      if (--one.turns > 0) {
        sends_.push_back(std::move(one));
        continue;
      }
      is_any = true;
      one.done(one.to, one.count);
    }
    while (!frames_.empty() && !receives_.empty()) {
      const Frame frame = frames_.front();
      frames_.pop_front();
      auto [bytes, done] = std::move(receives_.front());
      receives_.pop_front();
      std::memcpy(bytes, static_cast<const void*>(&frame), sizeof(frame));
      done(1, frame.size());
      is_any = true;
    }
    return is_any;
  }
  bool is_sending() const override { return !sends_.empty(); }
  void finish() override {}

  void arrive(const Frame& frame) { frames_.push_back(frame); }

 private:
  struct Send {
    Done done;
    int to;
    int64_t count;
    int turns;
  };
  int turns_of_a_send_;
  std::vector<Send> sends_;
  std::deque<std::pair<char*, Done>> receives_;
  std::deque<Frame> frames_;
};

}  // namespace

TEST_CASE("loop: the last rank that leaves waits until its own frames have left") {
  auto owned = std::make_unique<SlowWire>(4);
  SlowWire& wire = *owned;
  Loop loop(std::move(owned));
  Frame leave;
  leave.type = Frame::Type::leave;
  wire.arrive(leave);
  REQUIRE(loop.run_once({}));
  bool has_left = false;
  Loop::Requests requests;
  requests.leave = [&] { has_left = true; };
  REQUIRE(loop.run_once(std::move(requests)));
  for (int turn = 0; turn < 8 && !has_left; ++turn) REQUIRE(loop.run_once({}));
  CHECK(has_left);
}
