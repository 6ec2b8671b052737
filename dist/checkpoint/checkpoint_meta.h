#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dist/checkpoint/piece.h"
#include "tensor/io/safetensors.h"
#include "tensor/named_tensor.h"
#include "tensor/types/dtype.h"

namespace tessera::dist {

/// The dynamic loss scale of fp16 training.
struct LossScaleState {
  double scale = 1.0;
  int64_t hysteresis = 1;
  int64_t good_steps = 0;
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

/// What a run must know, beside its tensors, to go on as if never stopped. Random numbers are a function of
/// (seed, step, sample), so the seed and the positions are all of their state.
struct TrainingState {
  int64_t step = 0;           ///< steps done
  uint64_t seed = 0;          ///< key of every random number
  int64_t data_position = 0;  ///< samples drawn
  int64_t schedule_step = 0;  ///< the schedule's own count: skipped steps do not advance it
  LossScaleState loss_scale = {};
  /// Of the validation at this step, where there was one; `best` goes by it.
  std::optional<double> validation_loss = {};
  io::Metadata model = {};  ///< the caller's: what the model must be built with (options, vocabulary)
  io::Metadata run = {};    ///< the caller's: everything else (optimizer options, dataset, ...)
  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

/// Tensors that are saved and loaded together, under a name of their own: "model" (parameters and buffers),
/// "optimizer".
struct TensorGroup {
  std::string name;
  std::vector<NamedTensor> tensors;
};

/// Ranks that hold the same numbers.
struct Replicas {
  int count = 1;  ///< 0 where another rank sees to it that they are saved
  int index = 0;  ///< this rank among them
};

/// A rank's place along a dimension of its mesh.
struct MeshIndex {
  std::string dimension;
  int size = 1;
  int index = 0;
};

/// A piece of a tensor that this rank holds.
struct TensorPiece {
  std::string name;
  Shape shape;  ///< of the whole tensor
  Piece piece;
  Tensor tensor;  ///< the piece's elements in row-major order, under any shape
  Replicas replicas = {};
  Tensor rounded = {};  ///< what is computed with, where `tensor` is a master: rounded anew after loading
  /// Of a tensor that each rank has for itself: this rank's place (own_pieces.h).
  std::vector<MeshIndex> own = {};
};

/// What a rank holds of a group of tensors.
struct PieceGroup {
  std::string name;
  std::vector<TensorPiece> pieces;
};
/// Whole tensors as pieces.
PieceGroup whole_pieces(const TensorGroup& group);

/// A tensor as a checkpoint knows it: by its group ("model", "optimizer", ...) and full name.
struct TensorId {
  std::string group;
  std::string name;
  friend auto operator<=>(const TensorId&, const TensorId&) = default;
};
/// "model/blocks.0.ln_1.weight".
std::string to_string(const TensorId& id);

/// Where a piece of a tensor is stored.
struct Chunk {
  TensorId tensor;
  DType dtype = f32;
  Shape shape;      ///< of the whole tensor
  Piece piece;      ///< the part that this chunk holds
  std::string key;  ///< its name in the file
};

/// One safetensors file of a checkpoint: what the rank that wrote it tells the rank that publishes.
struct FileRecord {
  std::string name;
  int64_t bytes = 0;
  uint64_t xxh3 = 0;
  std::vector<Chunk> chunks;
};

/// The content of meta.json.
struct CheckpointMeta {
  TrainingState state;
  std::vector<FileRecord> files;
};

/// The largest meta.json that is read, in bytes.
inline constexpr int64_t meta_size_limit = int64_t{1} << 28;
/// Throws CheckpointError naming `where` when a meta.json of so many bytes is larger than that.
void require_meta_size(int64_t bytes, const std::string& where);
/// Throws CheckpointError naming `where` unless this can be a file of a checkpoint's folder: no path that
/// leads out of it, and not hidden.
void require_file_name(const std::string& name, const std::string& where);
/// A checkpoint folder's index of itself.
inline constexpr const char* meta_file_name = "meta.json";

/// meta.json's text. Its last field is the XXH3 of all others, so that the index too is checked. Throws
/// CheckpointError for a text of the training state that is not UTF-8.
std::string to_json(const CheckpointMeta& meta);
/// Reads it back. Throws CheckpointError naming `where` and the field that is missing, mistyped or out of
/// range.
CheckpointMeta parse_checkpoint_meta(const std::string& json, const std::string& where);

/// A file's record as text, for sending it to the rank that publishes.
std::string to_json(const FileRecord& record);
FileRecord parse_file_record(const std::string& json, const std::string& where);

/// Sixteen hexadecimal digits.
std::string hash_text(uint64_t hash);

}  // namespace tessera::dist
