#include "dist/checkpoint/checkpoint_writer.h"

#include <cmath>
#include <filesystem>
#include <map>

#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/value_check.h"
#include "tensor/io/safetensors.h"

namespace tessera::dist {
namespace {

/// A full tensor keeps its name and shape in the file, so that any reader of safetensors can load it.
Chunk describe_chunk(const std::string& group, const TensorShard& shard, size_t index) {
  Chunk chunk{{group, shard.name}, shard.tensor.dtype(), shard.shape, shard.range, shard.name};
  if (shard.range != full_range(shard.shape)) chunk.key = text(shard.name, "#", index);
  return chunk;
}

Shape stored_shape(const Chunk& chunk) {
  const bool is_box = chunk.range.numel() == chunk.range.extent.numel();
  return is_box ? chunk.range.extent : Shape{chunk.range.numel()};
}

void require_fits(const TensorShard& shard, const std::string& where) {
  const std::string problem = problem_of(shard.range, shard.shape);
  require<CheckpointError>(problem.empty(), where, ": ", problem);
  require<CheckpointError>(shard.tensor.defined() && shard.tensor.numel() == shard.range.numel(), where,
                           ": expected ", shard.range.numel(), " elements, got ", describe(shard.tensor));
}

/// The step's name, checked to be one that `parse_step_name` accepts.
std::string checked_step_name(const std::string& root, int64_t step) {
  require<CheckpointError>(step >= 0, root, ": expected a step from 0, got ", step);
  std::string name = step_name(step);
  require<CheckpointError>(parse_step_name(name) == step, root, ": step ", step,
                           " has more digits than the name of a checkpoint");
  return name;
}

int64_t bytes_of(const io::Metadata& strings) {
  int64_t bytes = 0;
  for (const auto& [key, value] : strings) bytes += std::ssize(key) + std::ssize(value);
  return bytes;
}

void write_meta(const std::string& folder, const CheckpointMeta& meta) {
  const std::string path = folder + "/" + meta_file_name;
  require_meta_size(bytes_of(meta.state.model) + bytes_of(meta.state.run), path);  // before the text is built
  io::write_text_file(path, to_json(meta));
}

/// Opens the finished checkpoint as a load does, so that a load accepts what is published.
void require_loadable(const std::string& folder, TrainingState expected) {
  if (expected.validation_loss && !std::isfinite(*expected.validation_loss)) expected.validation_loss.reset();
  require<CheckpointError>(CheckpointReader(folder).state() == expected, folder, "/", meta_file_name,
                           ": expected the training state that was given, read back another: not published");
}

void update_best(const std::string& root, const TrainingState& state) {
  if (!state.validation_loss || !std::isfinite(*state.validation_loss)) return;
  const std::optional<std::string> best = read_latest_or_best(root, best_name);
  if (best && *best != root + "/" + step_name(state.step)) {
    const std::optional<double> loss = read_validation_loss(*best);
    if (loss && *loss <= *state.validation_loss) return;
  }
  write_pointer(root, best_name, state.step);
}

}  // namespace

FileRecord write_shards(const std::string& folder, const std::string& file_name, const std::string& group,
                        std::span<const TensorShard> shards) {
  require_file_name(file_name, folder);  // before writing: it might lead to a file of another checkpoint
  const std::string path = folder + "/" + file_name;
  FileRecord record;
  record.name = file_name;
  std::vector<io::SafetensorsEntry> layout;
  std::map<std::string, const TensorShard*> by_key;
  for (size_t i = 0; i < shards.size(); ++i) {
    require_fits(shards[i], text(path, ": tensor '", shards[i].name, "'"));
    record.chunks.push_back(describe_chunk(group, shards[i], i));
    const Chunk& chunk = record.chunks.back();
    layout.push_back({chunk.key, chunk.dtype, stored_shape(chunk)});
    by_key[chunk.key] = &shards[i];
  }
  io::SafetensorsWriter writer(path, std::move(layout), {{"format", "pt"}});
  for (const io::SafetensorsEntry& entry : writer.entries()) {
    const TensorShard& shard = *by_key.at(entry.name);
    const Tensor values = shard.tensor.to(cpu()).contiguous();
    const int64_t bad = first_invalid_value(entry.dtype, values.raw_data(), values.numel());
    require<CheckpointError>(bad < 0, path, ": tensor '", shard.name, "': element ", bad, " of ", shard.range,
                             " is ", bad_value_name(entry.dtype), ": not saved");
    writer.append(values.view(entry.shape));
  }
  record.bytes = writer.size();
  record.xxh3 = writer.commit();
  return record;
}

CheckpointWriter::CheckpointWriter(std::string root, int64_t step)
    : root_(std::move(root)),
      lock_(root_),
      folder_(io::make_temporary_folder(root_ + "/" + checked_step_name(root_, step))) {}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;
  if (!published_) std::filesystem::remove_all(folder_, ignored);
}

void CheckpointWriter::add(FileRecord record) {
  files_.push_back(std::move(record));
}

std::string CheckpointWriter::publish(const TrainingState& state, const SaveOptions& options) {
  const std::string name = step_name(state.step);
  require<CheckpointError>(folder_.rfind(root_ + "/" + name + io::temporary_mark, 0) == 0, folder_,
                           ": expected the state of this step, got step ", state.step);
  write_meta(folder_, {state, files_});
  require_loadable(folder_, state);
  io::set_published_mode(folder_);
  replace_checkpoint(folder_, root_, state.step);
  published_ = true;
  io::sync_directory(root_);
  write_pointer(root_, latest_name, state.step);
  update_best(root_, state);
  apply_retention(root_, options.keep, options.keep_best);
  return root_ + "/" + name;
}

std::string save_checkpoint(const std::string& root, const TrainingState& state,
                            std::span<const TensorGroup> groups, const SaveOptions& options) {
  CheckpointWriter writer(root, state.step);
  for (const TensorGroup& group : groups)
    writer.add(
        write_shards(writer.folder(), group.name + ".safetensors", group.name, unsharded(group).shards));
  return writer.publish(state, options);
}

}  // namespace tessera::dist
