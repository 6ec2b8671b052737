#include "dist/train/trainer/stage_batches.h"

#include <algorithm>
#include <utility>

#include "data/datasets/dataset_batches.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/random/random_context.h"

namespace tessera::training {
namespace {

/// The first `period` batches of a source, again and again; every repetition has steps of its own, and so
/// random numbers of its own.
class RepeatedBatches : public data::BatchSource {
 public:
  RepeatedBatches(std::shared_ptr<const data::BatchSource> source, int64_t period)
      : source_(std::move(source)), period_(period) {}
  data::Batch batch(int64_t step) const override {
    data::Batch batch = source_->batch(step % period_);
    batch.step = step;
    return batch;
  }
  std::string name() const override { return source_->name(); }

 private:
  std::shared_ptr<const data::BatchSource> source_;
  int64_t period_;
};

const char* option_of_limit(Stage stage) {
  constexpr const char* names[] = {"limit_train_batches", "limit_val_batches", "limit_test_batches",
                                   "limit_predict_batches"};
  return names[static_cast<int>(stage)];
}

/// The most batches of an epoch; -1: all.
int64_t limit_of(const TrainerOptions& options, Stage stage, bool is_dataset) {
  if (options.overfit_batches > 0 && (stage == Stage::fit || stage == Stage::validate))
    return options.overfit_batches;
  // A batch of a source is that of a step; one of a dataset is a micro-batch.
  if (options.fast_dev_run) return stage == Stage::fit && is_dataset ? options.accumulate : 1;
  const int64_t limits[] = {options.limit_train_batches, options.limit_val_batches,
                            options.limit_test_batches, options.limit_predict_batches};
  return limits[static_cast<int>(stage)];
}

/// This rank's number among those that train batches of their own, and how many these are.
std::pair<int, int> data_place(const TrainerOptions& options) {
  if (!options.world) return {0, 1};
  const int size = options.world->size();
  return {data_rank(options.stages, options.world->rank(), size), data_ranks(options.stages, size)};
}

std::shared_ptr<const data::DatasetBatches> batches_of(const LoaderSpec& spec, const TrainerOptions& options,
                                                       Stage stage) {
  const auto [rank, ranks] = data_place(options);
  const bool is_fixed = options.overfit_batches > 0 || stage != Stage::fit;
  const data::DatasetBatches::Options batches{.batch_size = spec.options.batch_size * ranks,
                                              .shuffle = spec.options.shuffle && !is_fixed,
                                              .seed = options.seed,
                                              .drop_last = spec.options.drop_last,
                                              .targets = spec.options.targets,
                                              .rank = rank,
                                              .world_size = ranks,
                                              .collate = spec.options.collate};
  if (spec.options.sampler)
    return std::make_shared<const data::DatasetBatches>(spec.dataset, spec.options.sampler, batches);
  return std::make_shared<const data::DatasetBatches>(spec.dataset, batches);
}

}  // namespace

StageBatches::StageBatches(const LoaderSpec& spec, const TrainerOptions& options, Stage stage)
    : targets_(spec.options.targets),
      seed_(options.seed),
      workers_(spec.options.workers),
      is_dataset_(spec.dataset != nullptr),
      accumulate_(options.accumulate),
      micro_batch_size_(spec.options.batch_size) {
  require<ConfigError>(is_dataset_ != (spec.source != nullptr),
                       "Trainer: expected a dataset or a source of the loader, got ",
                       is_dataset_ ? "both" : "neither");
  const int64_t limit = limit_of(options, stage, is_dataset_);
  if (is_dataset_) {
    const auto batches = batches_of(spec, options, stage);
    size_ = batches->batches_per_epoch();
    source_ = batches;
    used_ = limit < 0 ? size_ : std::min(limit, size_);
    return;
  }
  const auto [rank, ranks] = data_place(options);
  source_ = spec.source(rank, ranks);
  require<ConfigError>(source_ != nullptr, "Trainer: the loader's source returned no batches");
  const int64_t steps = source_->steps();
  require<ConfigError>(stage == Stage::fit || source_->may_end() || limit >= 0, "Trainer: ", source_->name(),
                       " has no end: expected ", option_of_limit(stage), ", got -1");
  is_evaluation_ = stage != Stage::fit;
  if (is_evaluation_ && steps < 0 && source_->may_end() && options.world && options.world->size() > 1)
    ranks_ = &options.world->communicator();
  const bool repeats = steps >= 0 || options.overfit_batches > 0;
  size_ = steps >= 0 ? steps : limit >= 0 ? limit : endless;
  used_ = limit < 0 ? size_ : std::min(limit, size_);
  if (stage == Stage::fit) {
    require<DataError>(used_ > 0, source_->name(), ": expected batches, got none");
    cuts_ = accumulate_;
    const int64_t samples = source_->batch(0).size();
    require<DataError>(samples > 0 && samples % cuts_ == 0, source_->name(), ": expected a multiple of the ",
                       cuts_, " micro-batches of a step (accumulate) in a rank's batch, got ", samples,
                       " samples");
    micro_batch_size_ = samples / cuts_;
  }
  if (repeats) source_ = std::make_shared<RepeatedBatches>(source_, steps >= 0 ? steps : used_);
}

data::Loader::Options StageBatches::steps_of(int64_t epoch, int64_t first) const {
  data::Loader::Options options{.first_step = first / cuts_, .workers = workers_, .seed = seed_};
  if (used_ == endless) return options;
  options.first_step += epoch * size_;
  options.last_step = epoch * size_ + used_;
  return options;
}

StageBatches::Pass::Pass(const StageBatches& batches, int64_t epoch, int64_t first)
    : batches_(batches),
      loader_(batches.source_, batches.steps_of(epoch, first)),
      cut_(first % batches.cuts_) {
  if (cut_ > 0) whole_ = loader_.next().value();
}

std::optional<MicroBatch> StageBatches::Pass::next() {
  if (batches_.ranks_) return next_of_ranks();
  const int64_t cuts = batches_.cuts_;
  if (cut_ == 0) {
    std::optional<data::Batch> taken = loader_.next();
    require<DataError>(taken || batches_.used_ != endless || batches_.is_evaluation_,
                       batches_.source_->name(), ": ended at step ", loader_.step(),
                       ", and its number of steps is not known: set limit_train_batches");
    if (!taken) return std::nullopt;
    whole_ = std::move(*taken);
  }
  const double part = batches_.is_dataset_ ? 1.0 / static_cast<double>(batches_.accumulate_) : 1.0;
  if (cuts == 1) return MicroBatch{whole_, whole_.rank_weight() * part};
  require<DataError>(whole_.size() % cuts == 0, batches_.source_->name(), ": step ", loader_.step() - 1,
                     ": expected a multiple of the ", cuts, " micro-batches of a step (accumulate), got ",
                     whole_.size(), " samples");
  const int64_t size = whole_.size() / cuts;
  MicroBatch micro{whole_.micro_batch(cut_ * size, size)};
  cut_ = (cut_ + 1) % cuts;
  micro.share =
      micro.batch.total_unpadded_size == 0 ? 1.0 / static_cast<double>(cuts) : micro.batch.rank_weight();
  begin_random_step(batches_.seed_, loader_.step() - 1, micro.batch.samples);
  return micro;
}

/// A batch of an evaluation. It ends where no rank has one.
std::optional<MicroBatch> StageBatches::Pass::next_of_ranks() {
  std::optional<data::Batch> taken = loader_.next();
  const bool had_none = !taken && whole_.size() == 0;
  const CategoryScope category(MemoryCategory::communication);
  const Tensor any = Tensor::zeros({2}, i64);  // whether a rank has a batch, and whether one never had any
  any.data<int64_t>()[0] = taken ? 1 : 0;
  any.data<int64_t>()[1] = had_none ? 1 : 0;
  batches_.ranks_->all_reduce(any, dist::Reduction::max).wait();
  if (any.data<int64_t>()[0] == 0) return std::nullopt;
  require<DataError>(any.data<int64_t>()[1] == 0, batches_.source_->name(),
                     ": expected a batch on every rank, got none on ", had_none ? "this one" : "some");
  if (taken) {
    whole_ = std::move(*taken);
    return MicroBatch{whole_, whole_.rank_weight()};
  }
  whole_.items.assign(whole_.samples.size(), -1);
  return MicroBatch{whole_, 0, true};
}

data::Batch prepared(const data::Batch& taken, Device device, const std::vector<std::string>& targets) {
  data::Batch batch = taken.to(device);
  if (batch.unpadded_size() > 0) return batch;
  for (const data::Field& field : batch.fields())
    if (std::find(targets.begin(), targets.end(), field.name) != targets.end())
      batch.set(field.name, Tensor::zeros(field.value.shape(), field.value.dtype(), device));
  return batch;
}

}  // namespace tessera::training
