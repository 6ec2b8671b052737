// A model, its data and its task; the command line has the trainer's options. Prints the sum of all weights.
#include <tessera/dist/train/trainer/trainer_arguments.h>
#include <tessera/tessera.h>

#include <cmath>
#include <cstdio>
#include <iostream>

using namespace tessera;
// Points drawn at random, in three classes by their angle.
struct Angles : data::Dataset {
  int64_t size() const override { return 600; }
  data::Example get(int64_t) const override {
    const Tensor x = rand({2}) * 2 - 1;
    const double angle = std::atan2(x[1].item(), x[0].item());
    return {x, Tensor::scalar(static_cast<int64_t>((angle + 3.2) / 6.4 * 3))};
  }
};

struct Classifier : training::TaskOf<Classifier> {
  nn::Linear& hidden = add<nn::Linear>("hidden", {.in = 2, .out = 32});
  nn::Dropout& drop = add<nn::Dropout>("drop", 0.1);
  nn::Linear& out = add<nn::Linear>("out", {.in = 32, .out = 3});
  Variable forward(const Variable& x) { return out(drop(relu(hidden(x)))); }

  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    log("loss", loss, {.on_step = true});
    return loss;
  }
  training::OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::AdamW>(parameters, 1e-2)};
  }
};

struct Data : training::DataModule {
  std::optional<training::LoaderSpec> train_dataloader() override {
    const int64_t share = 24 / dist::launcher_job().size;
    return training::LoaderSpec{std::make_shared<Angles>(), {.batch_size = share, .shuffle = true}};
  }
};

int main(int argc, char** argv) {
  auto options = training::trainer_arguments(
      {.strategy = "full_shard"}, argc, argv, std::cout, [] { return std::make_unique<Classifier>(); },
      [] { return std::make_unique<Data>(); });
  if (!options) return 0;
  return dist::launch([&](dist::World& world) {
    Classifier task;
    Data data;
    options->world = &world;
    training::Trainer(*options).fit(task, data);
    Tensor sum = zeros({1}, f64);
    for (const auto& p : task.parameters()) sum += p.variable.value().to(f64).sum();
    world.communicator().all_reduce(sum, dist::Reduction::sum).wait();
    if (world.rank() == 0) std::printf("%.17g\n", sum.item());
  });
}
