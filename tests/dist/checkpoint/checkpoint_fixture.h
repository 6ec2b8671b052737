#pragma once

#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/checkpoint_writer.h"
#include "tests/support/checkpoint_error.h"
#include "tests/support/temporary_folder.h"

/// Values that identify their element: element i of tensor `id` is id * 1000 + i.
inline tessera::Tensor numbered(const tessera::Shape& shape, int id) {
  tessera::Tensor tensor = tessera::Tensor::empty(shape, tessera::f32);
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data<float>()[i] = static_cast<float>(id * 1000 + i);
  return tensor;
}

/// A small model and its optimizer, with every kind of tensor that checkpoints have.
inline std::vector<tessera::dist::TensorGroup> small_run(int id) {
  using tessera::Tensor;
  return {{"model",
           {{"fc.weight", numbered({4, 3}, id)},
            {"fc.bias", numbered({4}, id + 1)},
            {"count", Tensor::scalar<int64_t>(id)},
            {"none", Tensor::zeros({0, 3}, tessera::f32)},
            {"mask", Tensor::from<bool>({true, false, true})}}},
          {"optimizer",
           {{"exp_avg/fc.weight", numbered({4, 3}, id + 2)}, {"step/fc.weight", Tensor::scalar(1.0)}}}};
}

inline tessera::dist::TrainingState state_at(int64_t step) {
  tessera::dist::TrainingState state;
  state.step = step;
  state.seed = 0xfedcba9876543210u;
  state.data_position = step * 12;
  state.schedule_step = step - 1;
  state.loss_scale = {65536.0, 2, 17};
  state.model = {{"n_layer", "4"}, {"vocabulary", "a\"b\n\xc3\xa9"}};
  state.run = {{"lr", "0.1"}};
  return state;
}

inline std::string save_small(const std::string& root, int64_t step, int id,
                              const tessera::dist::SaveOptions& options = {}) {
  return tessera::dist::save_checkpoint(root, state_at(step), small_run(id), options);
}

/// The number of files and folders in a folder.
inline size_t entries_in(const std::string& path) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
}

inline bool same_bits(const tessera::Tensor& a, const tessera::Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.numel() == 0 || std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.nbytes())) == 0);
}

inline bool same_bits(const std::vector<tessera::dist::TensorGroup>& a,
                      const std::vector<tessera::dist::TensorGroup>& b) {
  for (size_t g = 0; g < a.size(); ++g)
    for (size_t i = 0; i < a[g].tensors.size(); ++i)
      if (!same_bits(a[g].tensors[i].tensor, b[g].tensors[i].tensor)) return false;
  return a.size() == b.size();
}
