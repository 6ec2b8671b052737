// usage: spirals [STEPS]: tells the points of three spirals apart.
#include <tessera/dist/train/trainer/trainer.h>
#include <tessera/tessera.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
using namespace tessera;

struct Spirals : data::Dataset {
  int64_t size() const override { return 3000; }
  data::Example get(int64_t i) const override {  // other points in each epoch
    const double radius = rand({}).item(), angle = 6 * radius + 2.0944 * static_cast<double>(i % 3);
    const Tensor point = tensor({radius * std::cos(angle), radius * std::sin(angle)});
    return {point + 0.02 * randn({2}), tensor(i % 3)};
  }
};

struct Classifier : training::TaskOf<Classifier> {
  nn::Sequential& net = add("net", nn::Sequential{nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64),
                                                  nn::ReLU(), nn::Linear(64, 3)});
  Variable forward(const Variable& x) const { return net(x); }

  Variable training_step(const data::Batch& batch, int64_t) override {
    const Variable loss = nn::cross_entropy((*this)(batch.x), batch.y);
    log("loss", loss);
    return loss;
  }
  training::OptimizerSetup configure_optimizers(const ParameterList& parameters) override {
    return {std::make_unique<optim::AdamW>(parameters, 1e-2)};
  }
};

int main(int argc, char** argv) {
  Classifier task;
  training::Loaders data({std::make_shared<Spirals>(), {.batch_size = 100, .shuffle = true}});
  training::Trainer trainer({.max_steps = argc > 1 ? std::atoi(argv[1]) : 300});
  trainer.fit(task, data);
  std::printf("loss of the last epoch: %.4f\n", trainer.logged().at("loss"));
}
