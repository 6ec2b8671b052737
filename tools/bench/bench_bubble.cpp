// The bubble of a pipeline, measured beside the formula and the simulation. Layers sleep for a fixed time
// instead of computing, so that stages are equal and any number of ranks runs on a machine with few cores:
// what is left beside the formula are messages and the interpreter.
//
//     build/release/bin/bench/bench_bubble
//     build/release/bin/bench/bench_bubble --stages 2,4,8 --micro-batches 4,8,16 --schedule zb-h1

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "autograd/functions/layers/loss.h"
#include "dist/launch/launch.h"
#include "dist/pipeline/run/pipeline.h"
#include "dist/pipeline/simulation/timing.h"
#include "nn/layers/containers.h"
#include "nn/layers/linear.h"
#include "nn/materialize.h"
#include "tensor/error.h"
#include "tensor/number_text.h"

namespace {

using namespace tessera;

struct Options {
  std::vector<int> stages{1, 2, 4}, micro_batches{1, 2, 4, 8, 16};
  std::string schedule = "1f1b";
  double milliseconds = 4;  ///< of a stage's forward, and of each half of its backward
  int steps = 5;
};

void sleep_for(double milliseconds) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

/// Linear layers, one for each stage of the model; the forward and both halves of the backward of each take
/// `milliseconds`.
class SleepingModel {
 public:
  SleepingModel(int stages, double milliseconds) {
    for (int i = 0; i < stages; ++i) net_.push<nn::Linear>({.in = 4, .out = 4});
    layers_.layers = net_.to_layers();
    for (nn::LayerSpec& layer : layers_.layers)
      layer.run = [run = layer.run, milliseconds](const nn::LayerValues& values) {
        sleep_for(milliseconds);
        nn::LayerValues results = run(values);
        if (results[0].requires_grad())
          results[0].register_hook([milliseconds](const Variable&) { sleep_for(milliseconds); });
        return results;
      };
    net_.for_each([milliseconds](nn::Module& module) {
      if (auto* linear = dynamic_cast<nn::Linear*>(&module))
        linear->weight.register_post_accumulate_grad_hook(
            [milliseconds](const Variable&) { sleep_for(milliseconds); });
    });
    layers_.loss.run = [](const nn::LayerValues& values, const std::vector<Tensor>& targets) {
      return mse_loss(values.at(0), targets.at(0));
    };
  }
  nn::Sequential& net() { return net_; }
  const nn::LayeredModel& layers() const { return layers_; }

 private:
  nn::Sequential net_;
  nn::LayeredModel layers_;
};

/// The median over the steps of the part of all ranks' time in which they do not compute.
double measured_bubble(const Options& o, int stages, int micro_batches) {
  std::vector<double> bubbles;
  dist::launch(
      [&](dist::World& world) {
        const dist::ScheduleKind kind = dist::parse_schedule_kind(o.schedule);
        const dist::PipelineSchedule table =
            dist::make_schedule({.kind = kind, .ranks = stages, .micro_batches = micro_batches});
        SleepingModel model(table.stages, o.milliseconds / table.chunks());
        dist::Pipeline pipeline(model.net(), model.layers(),
                                {.mesh = dist::pipeline_mesh(world, stages),
                                 .schedule = kind,
                                 .partition = dist::parse_partition_method("uniform")});
        nn::materialize(model.net(), cpu(), 1);
        const Tensor x = Tensor::zeros({1, 4}, f32);
        const std::vector<dist::MicroBatch> batches(static_cast<size_t>(micro_batches),
                                                    {.inputs = {x}, .targets = {x}});
        for (int step = 0; step <= o.steps; ++step) {
          world.communicator().barrier().wait();
          pipeline.train_step(batches);
          if (world.rank() > 0 || step == 0) continue;
          double busy = 0, seconds = 0;
          for (const dist::StageMetrics& rank : pipeline.metrics()) {
            busy += rank.busy_seconds;
            seconds = std::max(seconds, rank.seconds);
          }
          bubbles.push_back(1 - busy / (seconds * stages));
        }
      },
      {.virtual_ranks = stages, .threads = 1});
  std::nth_element(bubbles.begin(), bubbles.begin() + std::ssize(bubbles) / 2, bubbles.end());
  return bubbles[bubbles.size() / 2];
}

/// By discrete events, with equal times of F, I and W; chunks take their part of them.
double simulated_bubble(const Options& o, int stages, int micro_batches) {
  const dist::PipelineSchedule table = dist::make_schedule(
      {.kind = dist::parse_schedule_kind(o.schedule), .ranks = stages, .micro_batches = micro_batches});
  const double part = 1.0 / table.chunks();
  return dist::simulate(table, {.stages = {{part, part, part}}}).bubble();
}

std::string percent(double part) {
  return fixed(100 * part, 1) + " %";
}

void print_row(const std::vector<std::string>& cells) {
  for (const std::string& cell : cells) std::cout << "| " << cell << " ";
  std::cout << "|" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The bubble of a pipeline, measured beside the formula", "bench_bubble");
  Options o;
  app.add_option("--stages", o.stages, "ranks of the pipeline")->delimiter(',')->capture_default_str();
  app.add_option("--micro-batches", o.micro_batches)->delimiter(',')->capture_default_str();
  app.add_option("--schedule", o.schedule, dist::names_of_schedules())->capture_default_str();
  app.add_option("--milliseconds", o.milliseconds, "of a forward, and of each half of a backward")
      ->capture_default_str();
  app.add_option("--steps", o.steps, "that are timed, after one of warm-up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    print_row({o.schedule + ": S", "M", "(S-1)/(M+S-1)", "simulated", "measured"});
    print_row({"---", "---", "---", "---", "---"});
    for (const int s : o.stages)
      for (const int m : o.micro_batches)
        print_row({text(s), text(m), percent(static_cast<double>(s - 1) / (m + s - 1)),
                   percent(simulated_bubble(o, s, m)), percent(measured_bubble(o, s, m))});
  } catch (const Error& error) {
    std::cerr << "bench_bubble: " << error.what() << "\n";
    return 2;
  }
}
