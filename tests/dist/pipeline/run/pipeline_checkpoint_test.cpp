// Checkpoints of pipelines: written on one mesh, loaded on another.

#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "autograd/functions/elementwise/binary.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/checkpoint/model_state.h"
#include "dist/launch/launch.h"
#include "models/gpt.h"
#include "nn/materialize.h"
#include "optim/rules/adam.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/random/random_context.h"
#include "tests/dist/pipeline/run/pipeline_matrix.h"
#include "tests/dist/pipeline/run/small_models.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::dist;
using namespace tessera::test;

namespace {

constexpr uint64_t seed = 7;
constexpr int micro_batches = 4;
const models::GptOptions options{
    .vocabulary = 11, .block_size = 6, .layers = 6, .heads = 2, .width = 8, .dropout = 0.2, .bias = true};

/// A mesh and a schedule of a run; one stage of one rank is a run without a pipeline's cuts.
struct Setup {
  int stages = 1, copies = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::optional<Strategy> strategy = {};
};

/// The model and its optimizer on a rank.
class Run {
 public:
  Run(World& world, const Setup& setup)
      : world_(world),
        mesh_(pipeline_mesh(world, setup.stages)),
        pipeline_(gpt_, gpt_.to(f64).as<models::Gpt>()->to_layered_model(),
                  {.mesh = mesh_, .schedule = setup.schedule}) {
    if (setup.strategy)
      pipeline_.shard({.mesh = mesh_, .strategy = *setup.strategy, .units = every<models::Block>()});
    nn::materialize(gpt_, cpu(), seed);
    adam_.emplace(pipeline_.parameters(), optim::AdamOptions{.lr = 0.01});
  }

  void train(int64_t first, int64_t end) {
    const std::vector<MicroBatch> all = language_batches(micro_batches);
    const int own = micro_batches / mesh_.size("shard"), begin = own * mesh_.index("shard");
    for (int64_t step = first; step < end; ++step) {
      begin_random_step(seed, step, {});
      pipeline_.train_step(std::span(all).subspan(static_cast<size_t>(begin), static_cast<size_t>(own)));
      adam_->step();
      adam_->zero_grad();
    }
  }
  void save(const std::string& folder, int64_t step) {
    save_checkpoint(world_.communicator(), folder, {.step = step, .seed = seed}, groups());
  }
  void load(const std::string& folder) {
    const auto reader = open_checkpoint(world_.communicator(), folder);
    load_checkpoint(world_.communicator(), *reader, groups());
  }
  std::vector<GroupShard> groups() { return shards_of(gpt_, &*adam_, pipeline_.placement()); }

 private:
  World& world_;
  Mesh mesh_;
  models::Gpt gpt_{options};
  Pipeline pipeline_;
  std::optional<optim::Adam> adam_;
};

void on_ranks(const Setup& setup, const std::function<void(Run&)>& body) {
  launch(
      [&](World& world) {
        Run run(world, setup);
        body(run);
      },
      {.virtual_ranks = setup.stages * setup.copies, .timeout = std::chrono::seconds(60)});
}

/// All values of a checkpoint, by a model of one process.
std::vector<TensorGroup> read_all(const std::string& folder) {
  models::Gpt gpt(options);
  gpt.to(f64);
  nn::materialize(gpt, cpu(), 1);
  optim::Adam adam(gpt.parameters(), {.lr = 0.01});
  const std::vector<TensorGroup> groups{{"model", gpt.state_dict()}, {"optimizer", adam.state().tensors}};
  const CheckpointReader reader(find_checkpoint(folder));
  load_checkpoint(reader, groups);
  std::vector<TensorGroup> values;
  for (const TensorGroup& group : groups) {
    values.push_back({group.name, {}});
    for (const NamedTensor& entry : group.tensors)
      values.back().tensors.push_back({entry.name, entry.tensor.clone()});
  }
  return values;
}

double largest_difference(const std::vector<TensorGroup>& a, const std::vector<TensorGroup>& b) {
  double most = 0;
  for (size_t g = 0; g < a.size(); ++g)
    for (size_t i = 0; i < a[g].tensors.size(); ++i) {
      const Tensor &x = a[g].tensors[i].tensor, &y = b[g].tensors[i].tensor;
      for (int64_t k = 0; k < x.numel(); ++k)
        most =
            std::max(most, x.dtype() == f64
                               ? std::abs(x.data<double>()[k] - y.data<double>()[k])
                               : std::abs(static_cast<double>(x.data<int64_t>()[k] - y.data<int64_t>()[k])));
    }
  return most;
}

using enum Strategy;
const Setup setups[] = {{1, 1},
                        {2, 1},
                        {2, 2, ScheduleKind::one_f_one_b, full_shard},
                        {4, 1, ScheduleKind::interleaved},
                        {2, 2, ScheduleKind::zb_v, shard_grad_op},
                        {3, 1, ScheduleKind::zb_h1},
                        {2, 2, ScheduleKind::gpipe, no_shard}};

}  // namespace

TEST_CASE("pipeline checkpoints: every mesh's is loaded by every other, with the same bits") {
  for (const Setup& from : setups) {
    const TemporaryFolder folder;
    on_ranks(from, [&](Run& run) {
      run.train(0, 2);
      run.save(folder / "from", 2);
    });
    const std::vector<TensorGroup> saved = read_all(folder / "from");
    for (const Setup& to : setups) {
      on_ranks(to, [&](Run& run) {
        run.load(folder / "from");
        run.save(folder / "to", 2);
      });
      CHECK(largest_difference(read_all(folder / "to"), saved) == 0);
    }
  }
}

TEST_CASE("pipeline checkpoints: a run goes on from mesh to mesh as one device does") {
  const TemporaryFolder folder;
  on_ranks(setups[0], [&](Run& run) {
    run.train(0, 14);
    run.save(folder / "one", 14);
  });
  int64_t step = 0;
  for (const Setup& setup : setups) {
    on_ranks(setup, [&](Run& run) {
      if (step > 0) run.load(folder / "many");
      run.train(step, step + 2);
      run.save(folder / "many", step + 2);
    });
    step += 2;
  }
  CHECK(largest_difference(read_all(folder / "many"), read_all(folder / "one")) < 1e-10);
}

TEST_CASE("pipeline checkpoints: a tensor that no stage has is refused") {
  const TemporaryFolder folder;
  const Tensor extra = Tensor::from({1.0});
  on_ranks(setups[1], [&](Run& run) { run.save(folder / "good", 1); });
  launch([&](World& world) {
    Run run(world, setups[0]);
    std::vector<GroupShard> groups = run.groups();
    groups[0].shards.push_back({"extra", extra.shape(), full_range(extra.shape()), extra});
    save_checkpoint(world.communicator(), folder / "more", {.step = 1}, groups);
  });
  CHECK_THROWS_WITH_AS(on_ranks(setups[1], [&](Run& run) { run.load(folder / "more"); }),
                       doctest::Contains("has an unexpected tensor 'model/extra'"), CheckpointError);
}

namespace {

/// y = scale x, by a buffer.
struct Scaled : nn::Layer<Scaled> {
  Variable& scale = buffer("scale", [](Device device) { return ops::full({4}, 0.5, f64, device); });
  Variable forward(const Variable& x) const { return x * scale; }
};
/// A layer with a buffer at both ends of the list.
struct Buffered : nn::Layer<Buffered> {
  Scaled& scaled = add<Scaled>("scaled");
  nn::Linear& linear = add<nn::Linear>("linear", {.in = 4, .out = 4});
  Variable forward(const Variable& x) { return scaled(linear(scaled(x))); }
};

}  // namespace

TEST_CASE("pipeline checkpoints: a buffer of stages on several ranks is saved once, and loaded by all") {
  const TemporaryFolder folder;
  launch(
      [&](World& world) {
        Buffered net;
        net.to(f64);
        nn::LayeredModel layers{.loss = squared_error()};
        for (const nn::Module* module :
             {static_cast<const nn::Module*>(&net.scaled), static_cast<const nn::Module*>(&net.linear),
              static_cast<const nn::Module*>(&net.scaled)})
          layers.layers.push_back(values_layer(
              text("layer ", layers.layers.size()), {module}, [&net, module](const nn::LayerValues& values) {
                return nn::LayerValues{module == &net.linear ? net.linear(values.at(0))
                                                             : net.scaled(values.at(0))};
              }));
        Pipeline pipeline(net, layers,
                          {.mesh = pipeline_mesh(world, 3), .partition = parse_partition_method("uniform")});
        nn::materialize(net, cpu(), seed);
        optim::Adam adam(pipeline.parameters(), {.lr = 0.01});
        pipeline.train_step(regression_batches(2));
        const std::vector<GroupShard> groups = shards_of(net, &adam, pipeline.placement());
        save_checkpoint(world.communicator(), folder / "buffers", {.step = 1, .seed = seed}, groups);
        const bool has_buffer = world.rank() != 1;
        if (has_buffer) net.scaled.scale.value().fill_(7);
        const auto reader = open_checkpoint(world.communicator(), folder / "buffers");
        load_checkpoint(world.communicator(), *reader, groups);
        if (has_buffer) require<ValueError>(net.scaled.scale.value().sum().item() == 2, "another buffer");
      },
      {.virtual_ranks = 3, .timeout = std::chrono::seconds(30)});
}
