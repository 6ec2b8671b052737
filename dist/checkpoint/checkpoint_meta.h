#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dist/checkpoint/tensor_range.h"
#include "tensor/io/safetensors.h"
#include "tensor/named_tensor.h"
#include "tensor/types/dtype.h"

namespace tessera::dist {

/// The dynamic loss scale of fp16 training.
struct LossScaleState {
  double scale = 1.0;      ///< the factor of the loss
  int64_t hysteresis = 1;  ///< overflows left until the scale halves
  int64_t good_steps = 0;  ///< since the last overflow
  /// Equal in all fields.
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

/// What a run needs, beside its tensors, to continue as if it had not stopped. Random numbers are a function
/// of (seed, step, sample), so the seed and the positions are their full state.
struct TrainingState {
  int64_t step = 0;           ///< steps done
  uint64_t seed = 0;          ///< key of every random number
  int64_t data_position = 0;  ///< samples drawn
  int64_t schedule_step = 0;  ///< the step of the learning rate schedule: skipped steps do not advance it
  LossScaleState loss_scale = {};  ///< of fp16 training; else the default
  /// Of the validation at this step, where there was one; `best` names the checkpoint with the lowest.
  std::optional<double> validation_loss = {};
  io::Metadata model = {};  ///< set by the caller: what the model is built with (options, vocabulary)
  io::Metadata run = {};    ///< set by the caller: everything else (optimizer options, dataset, ...)
  /// Equal in all fields.
  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

/// Tensors that are saved and loaded together under one name: "model" (parameters and buffers), "optimizer".
struct TensorGroup {
  std::string name;                  ///< of the group
  std::vector<NamedTensor> tensors;  ///< full tensors, by their full names
};

/// Ranks that hold the same values.
struct Replicas {
  int count = 1;  ///< of the ranks that write the values together; 0 where another rank writes them
  int index = 0;  ///< of this rank among them
};

/// A rank's position along a dimension of its mesh.
struct MeshIndex {
  std::string dimension;  ///< its name: "shard", ...
  int size = 1;           ///< ranks along it
  int index = 0;          ///< of the rank along it
};

/// What this rank holds of a tensor: a shard, or all of it.
struct TensorShard {
  std::string name;        ///< the tensor's full name
  Shape shape;             ///< of the full tensor
  TensorRange range;       ///< the elements that this rank holds
  Tensor tensor;           ///< the elements of `range` in row-major order, under any shape
  Replicas replicas = {};  ///< the ranks that hold these elements
  Tensor rounded = {};  ///< the parameter in bf16 or f16, where `tensor` is its master: rounded after loading
  /// This rank's place on the mesh, for a tensor that each rank has for itself (rank_local.h); else empty.
  std::vector<MeshIndex> rank_place = {};
};

/// What a rank holds of a group of tensors.
struct GroupShard {
  std::string name;                 ///< of the group
  std::vector<TensorShard> shards;  ///< at most one for each tensor of the group
  /// Parameters and buffers of which other ranks alone hold anything: those of other stages of a pipeline.
  /// The group has these, and their state in an optimizer, without shards here.
  std::set<std::string> elsewhere = {};
};
/// A group of which this process holds the full tensors.
GroupShard unsharded(const TensorGroup& group);

/// The identity of a tensor in a checkpoint: its group ("model", "optimizer", ...) and full name.
struct TensorId {
  std::string group;  ///< the group's name
  std::string name;   ///< the tensor's full name; of a rank-local tensor, that under which it is stored
  /// By group, then by name.
  friend auto operator<=>(const TensorId&, const TensorId&) = default;
};
/// "model/blocks.0.ln_1.weight".
std::string to_string(const TensorId& id);

/// A range of a tensor that is stored in one file.
struct Chunk {
  TensorId tensor;    ///< the tensor that the range is of
  DType dtype = f32;  ///< of the tensor
  Shape shape;        ///< of the full tensor
  TensorRange range;  ///< the elements that the file holds
  std::string key;    ///< the chunk's name in the file
};

/// One safetensors file of a checkpoint. The rank that wrote it sends this to rank 0, which publishes.
struct FileRecord {
  std::string name;           ///< in the checkpoint's folder
  int64_t bytes = 0;          ///< of the whole file
  uint64_t xxh3 = 0;          ///< XXH3 of the whole file
  std::vector<Chunk> chunks;  ///< one for each tensor of the file
};

/// The content of meta.json.
struct CheckpointMeta {
  TrainingState state;            ///< of the run
  std::vector<FileRecord> files;  ///< the checkpoint's other files
};

/// The largest meta.json that is written or read, in bytes.
inline constexpr int64_t meta_size_limit = int64_t{1} << 28;
/// Throws CheckpointError naming `where` unless `bytes` is within `meta_size_limit`.
void require_meta_size(int64_t bytes, const std::string& where);
/// Throws CheckpointError naming `where` unless `name` is a file directly in a checkpoint's folder, and not
/// hidden.
void require_file_name(const std::string& name, const std::string& where);
/// The file that lists a checkpoint's state, files and chunks.
inline constexpr const char* meta_file_name = "meta.json";

/// The text of meta.json. Its field "xxh3" is the XXH3 of all others, so that meta.json is verified too.
/// Throws CheckpointError for a string of the training state that is not UTF-8.
std::string to_json(const CheckpointMeta& meta);
/// The inverse. Throws CheckpointError naming `where` and the field that is missing, mistyped or out of
/// range.
CheckpointMeta parse_checkpoint_meta(const std::string& json, const std::string& where);

/// A file's record as one line of text, to be sent to rank 0.
std::string to_json(const FileRecord& record);
/// The inverse. Throws CheckpointError naming `where` and the field that is missing, mistyped or out of
/// range.
FileRecord parse_file_record(const std::string& json, const std::string& where);

/// Sixteen hexadecimal digits.
std::string hash_text(uint64_t hash);

}  // namespace tessera::dist
