// usage: rank_faults FAULT RANK
// Calls collectives without end; after a while the one rank does what FAULT says. What each rank then says
// goes to stderr, and its exit status is that of a program: 5 for ranks lost or out of step, 1 for anything
// else.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "dist/comm/fault_injection.h"
#include "dist/launch/launch.h"

using namespace tessera;
using std::chrono::milliseconds;

namespace {

struct Faults {
  dist::World& world;
  std::mt19937 random{std::random_device{}()};

  void after_a_while() { std::this_thread::sleep_for(milliseconds(random() % 200)); }

  /// From another thread, whatever the rank is doing then.
  void signal_from_outside(int signal) {
    std::thread([this, signal] {
      after_a_while();
      ::kill(::getpid(), signal);
    }).detach();
  }
  /// From a collective, at one of its points.
  void signal_inside(int signal) {
    const int call = static_cast<int>(random() % 60);
    static dist::CommHookScope scope(
        [signal, call, calls = 0](dist::CommPoint, const dist::CallHeader&) mutable {
          if (calls++ == call) ::kill(::getpid(), signal);
        });
  }
  void fail() {
    after_a_while();
    throw std::runtime_error("the forward of rank " + std::to_string(world.rank()) + " failed");
  }
  void block() { std::this_thread::sleep_for(std::chrono::minutes(5)); }
  void take_another_branch() {
    world.communicator().all_gather(Tensor::zeros({2 * world.size()}, f32), Tensor::zeros({2}, f32)).wait();
  }
  void take_another_size() {
    world.communicator().all_reduce(Tensor::zeros({100001}, f32), dist::Reduction::sum).wait();
  }
  void take_another_dtype() {
    world.communicator().all_reduce(Tensor::zeros({100000}, i32), dist::Reduction::sum).wait();
  }
  void leave() { throw std::runtime_error("left early"); }

  void run(const std::string& fault) {
    const std::map<std::string, std::function<void()>> all{
        {"none", [] {}},
        {"none-ever", [] {}},
        {"killed", [this] { signal_from_outside(SIGKILL); }},
        {"killed-inside", [this] { signal_inside(SIGKILL); }},
        {"stopped", [this] { signal_from_outside(SIGSTOP); }},
        {"stopped-inside", [this] { signal_inside(SIGSTOP); }},
        {"exception", [this] { fail(); }},
        {"blocked", [this] { block(); }},
        {"branch", [this] { take_another_branch(); }},
        {"size", [this] { take_another_size(); }},
        {"dtype", [this] { take_another_dtype(); }},
    };
    all.at(fault)();
  }
};

void work(dist::World& world, int rounds) {
  dist::Communicator& all = world.communicator();
  const auto pair = all.split(world.rank() / 2, 0, "pair");
  const Tensor x = Tensor::zeros({100000}, f32), y = Tensor::zeros({100000 * world.size()}, f32);
  for (int i = 0; i < rounds; ++i) {
    dist::Work first = all.all_reduce(x, dist::Reduction::sum, {.unit = "blocks.3"});
    dist::Work second = pair->all_reduce(Tensor::zeros({10}, f32), dist::Reduction::sum);
    second.wait();
    first.wait();
    all.all_gather(y, x, {.unit = "blocks.4"}).wait();
    std::this_thread::sleep_for(milliseconds(2));
  }
}

void body(dist::World& world, const std::string& fault, int rank) {
  work(world, 3);
  Faults faults{world};
  if (world.rank() == rank) faults.run(fault);
  work(world, fault == "none" ? 20 : 1'000'000);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  dist::LaunchOptions options;
  options.silence = milliseconds(1500);
  options.timeout = milliseconds(3000);
  const int rank = dist::launcher_job().rank;
  try {
    return dist::launch([&](dist::World& world) { body(world, argv[1], std::stoi(argv[2])); }, options);
  } catch (const dist::CommunicationError& error) {
    std::fprintf(stderr, "rank %d ends: %s\n", rank, error.what());
    return 5;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d ends: %s\n", rank, error.what());
    return 1;
  }
}
