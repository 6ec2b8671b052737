// usage: rank_faults FAULT RANK
// Calls collectives without end. After a while rank RANK causes FAULT: in a launch, between two launches or
// after the last. Each rank then prints its error to stderr and exits as a program would: with 5 for ranks
// lost or out of step, with 1 for other errors.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "dist/comm/interface/fault_injection.h"
#include "dist/launch/launch.h"
#include "dist/pipeline/run/pipeline.h"
#include "models/dnn.h"
#include "nn/materialize.h"

using namespace tessera;
using std::chrono::milliseconds;

namespace {

struct Faults {
  dist::World& world;
  std::mt19937 random{std::random_device{}()};

  void sleep_randomly() { std::this_thread::sleep_for(milliseconds(random() % 200)); }

  /// From another thread, at a random point of the rank's work.
  void signal_from_outside(int signal) {
    std::thread([this, signal] {
      sleep_randomly();
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
    sleep_randomly();
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

/// Steps of a pipeline with a stage on each rank. In the third one a stage causes the fault in its forward of
/// micro-batch 2.
void train_in_stages(dist::World& world, const std::string& fault, int rank) {
  models::Dnn dnn({.layers = 2 * world.size(), .width = 4});
  nn::LayeredModel layers = dnn.to_layered_model();
  int step = 0, calls = 0;
  for (int64_t layer = 2 * rank; world.rank() == rank && layer < 2 * rank + 1; ++layer)
    layers.layers[static_cast<size_t>(layer)].run =
        [&, run = layers.layers[static_cast<size_t>(layer)].run](const nn::LayerValues& values) {
          if (step == 2 && ++calls == 3) {
            if (fault == "stage-killed") ::raise(SIGKILL);
            std::this_thread::sleep_for(std::chrono::minutes(5));
          }
          return run(values);
        };
  dist::Pipeline pipeline(dnn, layers,
                          {.mesh = dist::pipeline_mesh(world, world.size()),
                           .partition = dist::parse_partition_method("uniform")});
  nn::materialize(dnn, cpu(), 1);
  const Tensor x = Tensor::zeros({2, 4}, f32);
  const std::vector<dist::MicroBatch> batches(4, {.inputs = {x}, .targets = {x}});
  for (; step < 1000; ++step) pipeline.train_step(batches);
}

void body(dist::World& world, const std::string& fault, int rank) {
  if (fault.starts_with("stage-")) return train_in_stages(world, fault, rank);
  work(world, 3);
  Faults faults{world};
  if (world.rank() == rank) faults.run(fault);
  work(world, fault == "none" ? 20 : 1'000'000);
}

void print_place(dist::World& world) {
  std::printf("rank %d is %d of %d here; %s\n", world.rank(), world.local_rank(), world.local_size(),
              world.transport().c_str());
}

/// What one rank does after a launch of all; then there is another launch, unless that was the last.
struct BetweenLaunches {
  std::function<void()> act;
  dist::LaunchOptions options;
  bool is_last = false;
};

std::map<std::string, BetweenLaunches> between_launches() {
  const auto work_for = [](int seconds) {
    return [seconds] { std::this_thread::sleep_for(std::chrono::seconds(seconds)); };
  };
  const dist::LaunchOptions soon_silent{.timeout = std::chrono::seconds(40),
                                        .heartbeat_timeout = milliseconds(1000)};
  const dist::LaunchOptions late_silent{.timeout = std::chrono::seconds(50),
                                        .heartbeat_timeout = std::chrono::seconds(40)};
  return {
      {"works-between", {.act = work_for(4), .options = soon_silent}},
      {"works-after", {.act = work_for(12), .options = soon_silent, .is_last = true}},
      {"killed-between", {.act = [] { ::raise(SIGKILL); }, .options = late_silent}},
      {"leaves-between", {.act = [] { std::exit(0); }, .options = late_silent}},
  };
}

/// Every rank keeps a group of the first launch until the second has made its own, and those of the second
/// and third to the end. After the last launch one rank works for longer than all deadlines.
void keep_groups(int faulty_rank) {
  const dist::LaunchOptions options{.timeout = milliseconds(3000), .heartbeat_timeout = milliseconds(1000)};
  std::shared_ptr<dist::Communicator> kept[2];
  bool is_faulty = false;
  for (int i = 0; i < 3; ++i)
    dist::launch(
        [&](dist::World& world) {
          is_faulty = world.rank() == faulty_rank;
          kept[i / 2] = world.communicator().split(0, world.rank(), "kept");
          kept[i / 2]->all_reduce(Tensor::zeros({10}, f32), dist::Reduction::sum).wait();
          work(world, 3);
        },
        options);
  if (is_faulty) std::this_thread::sleep_for(std::chrono::seconds(6));
}

int run(const std::string& fault, int faulty_rank, int rank) {
  const auto short_work = [](dist::World& world) { work(world, 3); };
  if (fault == "place") return dist::launch(print_place);
  if (fault == "keeps-groups") return keep_groups(faulty_rank), 0;
  const auto all = between_launches();
  if (const auto found = all.find(fault); found != all.end()) {
    dist::launch(short_work, found->second.options);
    if (rank == faulty_rank) found->second.act();
    return found->second.is_last ? 0 : dist::launch(short_work, found->second.options);
  }
  dist::LaunchOptions options;
  options.heartbeat_timeout = milliseconds(1500);
  options.timeout = milliseconds(3000);
  return dist::launch([&](dist::World& world) { body(world, fault, faulty_rank); }, options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int rank = dist::launcher_job().rank;
  try {
    return run(argv[1], std::stoi(argv[2]), rank);
  } catch (const dist::CommunicationError& error) {
    std::fprintf(stderr, "rank %d ends: %s\n", rank, error.what());
    return 5;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d ends: %s\n", rank, error.what());
    return 1;
  }
}
