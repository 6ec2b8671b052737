#include "tools/gptlite/parity_export.h"

#include <filesystem>

#include "dist/train/trainer/task.h"
#include "tensor/error.h"
#include "tensor/io/safetensors.h"

namespace tessera::gptlite {

ParityExport::ParityExport(std::string folder, std::shared_ptr<const data::BatchSource> batches,
                           int64_t steps)
    : folder_(std::move(folder)), batches_(std::move(batches)), steps_(steps) {}

void ParityExport::on_train_start(training::Trainer&, training::Task& task) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  require<ConfigError>(!error, "--parity-export ", folder_, ": cannot make the folder: ", error.message());
  io::write_safetensors(folder_ + "/model.safetensors", task.module().state_dict(), {{"format", "pt"}});

  const data::Batch first = batches_->batch(0);
  const Shape shape{steps_, first.x.size(0), first.x.size(1)};
  const Tensor x = Tensor::empty(shape, i64), y = Tensor::empty(shape, i64);
  for (int64_t step = 0; step < steps_; ++step) {
    const data::Batch batch = batches_->batch(step);
    x.select(0, step).copy_from(batch.x);
    y.select(0, step).copy_from(batch.y);
  }
  const NamedTensor tensors[] = {{"x", x}, {"y", y}};
  io::write_safetensors(folder_ + "/batches.safetensors", tensors, {{"format", "pt"}});
}

}  // namespace tessera::gptlite
