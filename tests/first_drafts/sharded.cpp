// clang-format off
#include "llama.h"
#include <cstdio>
int main(int argc, char** argv) {
  const int virtual_ranks = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::string out = argc > 2 ? argv[2] : "run2", resume = argc > 3 ? argv[3] : "";
  const int64_t steps = argc > 4 ? std::atoi(argv[4]) : 200;
  return dist::launch([&](dist::World& world) {
    const data::Corpus corpus = data::open_corpus({.dataset = "text", .data = "shared/data/tiny-shakespeare/input.txt"});
    dist::Mesh mesh(world);
    Llama model({.vocab = corpus.vocabulary_size});
    auto& sharding = dist::shard(model, {.mesh = mesh, .strategy = dist::Strategy::full_shard, .units = dist::every<Block>(),
                                         .precision = {.compute = bf16, .buffer = bf16}});
    nn::materialize(model, world.device(), 1337);
    optim::AdamW adam(optim::decay_groups(model.parameters(), optim::AdamWOptions{.lr = 1e-3, .weight_decay = 0.1}));
    optim::Schedule schedule = optim::cosine({.lr = 1e-3, .min_lr = 1e-4, .warmup_steps = steps / 10, .steps = steps});
    const dist::ShardPlacement holding = dist::placement_of(sharding);
    int64_t first = 0;
    if (!resume.empty()) {
      const auto reader = dist::open_checkpoint(world.communicator(), resume);
      dist::load_checkpoint(world.communicator(), *reader, dist::shards_of(model, &adam, holding));
      first = reader->state().step;
      schedule.set_position(first);
    }
    auto windows = std::make_shared<data::RandomWindows>(corpus.train,
        data::RandomWindows::Options{.block = 128, .batch_size = 16, .seed = 1337, .rank = world.rank(), .world_size = world.size()});
    data::Loader loader(windows, {.first_step = first, .last_step = steps});
    for (const data::Batch& batch : loader) {
      schedule.apply(adam);
      const Variable loss = nn::cross_entropy(model(batch.x), batch.y);
      loss.backward();
      const Tensor norm = optim::clip_grad_norm(model.parameters(), 1.0);
      adam.step();
      adam.zero_grad();
      schedule.advance();
      const int64_t done = batch.step + 1;
      const Tensor mean = loss.value().to(f32).clone();
      world.communicator().all_reduce(mean, dist::Reduction::avg).wait();
      if (world.rank() == 0 && (done % std::max(steps / 10, int64_t{1}) == 0 || batch.step == first))
        std::printf("step %3ld loss %.6f norm %.3f\n", done, mean.item(), norm.item());
      if (done % (steps / 2) == 0)
        dist::save_checkpoint(world.communicator(), out, {.step = done, .seed = 1337, .schedule_step = done}, dist::shards_of(model, &adam, holding));
    }
  }, {.virtual_ranks = virtual_ranks});
}
