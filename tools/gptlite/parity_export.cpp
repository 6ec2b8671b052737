#include "tools/gptlite/parity_export.h"

#include <filesystem>

#include "tensor/error.h"
#include "tensor/io/safetensors.h"

namespace tessera::gptlite {

void export_for_parity(const std::string& folder, const models::Gpt& gpt, const data::BatchSource& batches,
                       int64_t steps) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<ConfigError>(!error, "--parity-export ", folder, ": cannot make the folder: ", error.message());
  io::write_safetensors(folder + "/model.safetensors", gpt.state_dict(), {{"format", "pt"}});

  const data::Batch first = batches.batch(0);
  const Shape shape{steps, first.x.size(0), first.x.size(1)};
  const Tensor x = Tensor::empty(shape, i64), y = Tensor::empty(shape, i64);
  for (int64_t step = 0; step < steps; ++step) {
    const data::Batch batch = batches.batch(step);
    x.select(0, step).copy_from(batch.x);
    y.select(0, step).copy_from(batch.y);
  }
  const NamedTensor tensors[] = {{"x", x}, {"y", y}};
  io::write_safetensors(folder + "/batches.safetensors", tensors, {{"format", "pt"}});
}

}  // namespace tessera::gptlite
